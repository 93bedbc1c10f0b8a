"use strict";
/*
 * A small decoder of GPT-2's architecture, such as mini-idm, in plain JavaScript: tokenizer, forward pass, and the library's two
 * interventions, a collapse of words (pool_at) and keys that no query attends to (mask_attention).
 * Weights are float32; activations and sums are float64. Matrices are flat arrays, row by row.
 */

const HOW = {
  mean: (rows) => rows.reduce(added).map((sum) => sum / rows.length),
  max: (rows) => rows.reduce((one, two) => one.map((x, i) => Math.max(x, two[i]))),
  sum: (rows) => rows.reduce(added),
  last: (rows) => rows[rows.length - 1],
  first: (rows) => rows[0],
};

function added(one, two) {
  return one.map((x, i) => x + two[i]);
}

/** Words that are one pretoken of GPT-2's tokenizer. */
const PLAIN = /^([A-Za-z]+|[0-9]+|[!-/:-@[-`{-~]+)$/;

/** What the reader asked for and the model cannot do; its message is shown. */
class Refusal extends Error {}

class SmallGpt2 {
  constructor(exported) {
    Object.assign(this, exported);
    const binary = atob(exported.weights);
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < bytes.length; i += 1) bytes[i] = binary.charCodeAt(i);
    const numbers = new Float32Array(bytes.buffer);
    this.weights = {};
    let start = 0;
    for (const [name, shape] of exported.tensors) {
      const size = shape.reduce((a, b) => a * b);
      this.weights[name] = numbers.subarray(start, start + size);
      start += size;
    }
    this.d_model = this.weights["ln_f.bias"].length;
    this.ids = new Map(exported.vocabulary.map((token, id) => [token, id]));
    this.ranks = new Map(exported.merges.map((pair, rank) => [pair, rank]));
    this.known = exported.words && new Set(exported.words); // null: whatever it has read is not known
  }

  // ---------------------------------------------------------------- text

  /** A text in its prompt: { prompt, ids, words: [{ text, pieces, from, to }] }, positions of a
   *  word's tokens from `from` up to `to`; position 0 is BOS, where there is one. */
  read(text) {
    const own = text.split(/\s+/).filter(Boolean);
    if (!own.length) throw new Refusal("There is no text. Type one, or pick one.");
    for (const word of own) {
      if (this.known && !this.known.has(word)) throw new Refusal(this.unknown(word));
      if (!this.known && !PLAIN.test(word)) {
        throw new Refusal(
          `“${word}”: this page reads words of ASCII letters, of digits or of punctuation alone, ` +
            "with blanks between them. Put a blank between them; ic.explore reads every text.",
        );
      }
    }
    const prompt = this.template.replace("{}", own.join(" "));
    const ids = this.bos === null ? [] : [this.bos];
    const words = prompt.split(" ").map((text, i) => {
      const pieces = this.pieces(i ? `Ġ${text}` : text);
      const missing = pieces.find((piece) => !this.ids.has(piece));
      if (missing) throw new Refusal(`${this.name} has no token for “${missing}” of “${text}”.`);
      const from = ids.length;
      ids.push(...pieces.map((piece) => this.ids.get(piece)));
      return { text, pieces: pieces.map((piece) => piece.replace("Ġ", "")), from, to: ids.length };
    });
    if (ids.length > this.n_ctx) {
      throw new Refusal(
        `The prompt has ${ids.length} tokens, and ${this.name} reads at most ${this.n_ctx}. ` +
          "Shorten the text.",
      );
    }
    return { prompt, ids, words };
  }

  unknown(word) {
    const shared = (other) => {
      let n = 0;
      while (n < word.length && word[n].toLowerCase() === other[n]) n += 1;
      return n;
    };
    const alike = this.words.filter(shared).sort((a, b) => shared(b) - shared(a)).slice(0, 6);
    return (
      `${this.name} has never read the word “${word}”, so that its answer would mean nothing.` +
      (alike.length ? ` It has read: ${alike.sort().join(", ")}, …` : "")
    );
  }

  /** Byte-level BPE of one word of letters or digits, with Ġ for the blank before it. */
  pieces(text) {
    if (this.ignore_merges && this.ids.has(text)) return [text];
    const parts = [...text];
    for (;;) {
      let best = Infinity;
      let at = -1;
      for (let i = 0; i + 1 < parts.length; i += 1) {
        const rank = this.ranks.get(`${parts[i]} ${parts[i + 1]}`);
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return parts;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
  }

  /** The id of an answer, which is one token; a blank before it belongs to it where it has one. */
  answer(text) {
    const ids = [text, text.trim()].map((each) => this.ids.get(each.replace(/^ /, "Ġ")));
    const id = ids.find((each) => each !== undefined);
    if (id === undefined || !text.trim()) {
      throw new Refusal(
        `The answer “${text}” is not one token of ${this.name}, and so has no probability. ` +
          "Pick one of the top five, or another word.",
      );
    }
    return id;
  }

  // ---------------------------------------------------------------- the model

  weight(name) {
    return this.weights[name];
  }

  /** What enters each block, and what leaves the last: resid[layer] is [position][d_model]. */
  residuals({ ids }, hidden) {
    const [tokens, positions, d] = [this.weight("wte.weight"), this.weight("wpe.weight"), this.d_model];
    const resid = [
      ids.map((id, at) =>
        Float64Array.from({ length: d }, (_, i) => tokens[id * d + i] + positions[at * d + i]),
      ),
    ];
    for (let layer = 0; layer < this.n_layers; layer += 1) {
      resid.push(this.block(resid[layer], layer, hidden));
    }
    return resid;
  }

  block(resid, layer, hidden) {
    const part = (name) => `h.${layer}.${name}`;
    const attended = this.attention(this.norm(resid, part("ln_1")), layer, hidden);
    const mid = resid.map((row, i) => added(row, attended[i]));
    const up = this.affine(this.norm(mid, part("ln_2")), part("mlp.c_fc"));
    const down = this.affine(up.map((row) => row.map(gelu)), part("mlp.c_proj"));
    return mid.map((row, i) => added(row, down[i]));
  }

  /** `hidden[key]`: the key is out of the softmax of every query. BOS never is, so that no query is
   *  left without a key. */
  attention(rows, layer, hidden) {
    const d = this.d_model;
    const width = d / this.n_heads;
    const qkv = this.affine(rows, `h.${layer}.attn.c_attn`);
    const mixed = rows.map(() => new Float64Array(d));
    for (let head = 0; head < d; head += width) {
      for (let query = 0; query < rows.length; query += 1) {
        const [q, out] = [qkv[query], mixed[query]];
        const scores = qkv.slice(0, query + 1).map((k, key) => {
          let score = hidden[key] ? -Infinity : 0;
          for (let i = head; i < head + width; i += 1) score += q[i] * k[d + i];
          return score / Math.sqrt(width);
        });
        logSoftmax(scores).forEach((logWeight, key) => {
          const [weight, v] = [Math.exp(logWeight), qkv[key]];
          for (let i = head; i < head + width; i += 1) out[i] += weight * v[2 * d + i];
        });
      }
    }
    return this.affine(mixed, `h.${layer}.attn.c_proj`);
  }

  affine(rows, name) {
    const [weight, bias] = [this.weight(`${name}.weight`), this.weight(`${name}.bias`)];
    const width = bias.length;
    return rows.map((row) => {
      const out = Float64Array.from(bias);
      for (let k = 0; k < row.length; k += 4) { // four at once: twice as fast; widths are multiples
        const [x, x1, x2, x3] = row.subarray(k, k + 4);
        for (let j = 0, at = k * width; j < width; j += 1, at += 1) {
          out[j] +=
            x * weight[at] +
            x1 * weight[at + width] +
            x2 * weight[at + 2 * width] +
            x3 * weight[at + 3 * width];
        }
      }
      return out;
    });
  }

  norm(rows, name) {
    const [gain, bias] = [this.weight(`${name}.weight`), this.weight(`${name}.bias`)];
    return rows.map((row) => {
      const mean = row.reduce((a, b) => a + b) / row.length;
      const variance = row.reduce((sum, x) => sum + (x - mean) ** 2, 0) / row.length;
      const scale = 1 / Math.sqrt(variance + this.eps);
      return row.map((x, i) => (x - mean) * scale * gain[i] + bias[i]);
    });
  }

  /** Log-probabilities, in nats, of all tokens after the last position. */
  logProbs(resid) {
    const [row] = this.norm(resid.slice(-1), "ln_f");
    const embedding = this.weight("wte.weight");
    const logits = new Float64Array(this.vocabulary.length);
    for (let id = 0, at = 0; id < logits.length; id += 1) {
      for (let i = 0; i < row.length; i += 1, at += 1) logits[id] += row[i] * embedding[at];
    }
    return logSoftmax(logits);
  }

  // ---------------------------------------------------------------- interventions

  /** One text under one choice of hidden words: `clean()`, and `pooled(…)` at any layer. */
  under(reading, hiddenWords) {
    const hidden = reading.ids.map(() => false);
    for (const word of hiddenWords) hidden.fill(true, reading.words[word].from, reading.words[word].to);
    const resid = this.residuals(reading, hidden);
    return {
      clean: () => this.logProbs(resid[this.n_layers]),
      /** After the tokens of each of these ranges of words became one vector in what enters `layer`. */
      pooled: (units, layer, how) => {
        const spans = collapsed(reading, units);
        let rows = spans.map(([from, to]) => HOW[how](resid[layer].slice(from, to)));
        const hiddenUnits = spans.map(([from]) => hidden[from]);
        for (let above = layer; above < this.n_layers; above += 1) {
          rows = this.block(rows, above, hiddenUnits);
        }
        return this.logProbs(rows);
      },
    };
  }
}

/** Ranges of tokens, one for each position after the collapse. */
function collapsed({ ids, words }, units) {
  const spans = [];
  const pooled = units.map(([first, stop]) => [words[first].from, words[stop - 1].to]);
  for (let at = 0; at < ids.length; ) {
    const to = pooled.find(([from]) => from === at)?.[1] ?? at + 1;
    spans.push([at, to]);
    at = to;
  }
  return spans;
}

function logSoftmax(scores) {
  const top = scores.reduce((a, b) => Math.max(a, b));
  const total = scores.reduce((sum, x) => sum + Math.exp(x - top), 0);
  const shift = top + Math.log(total);
  return scores.map((x) => x - shift);
}

/** The tanh approximation: GPT-2's "gelu_new". */
function gelu(x) {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}
