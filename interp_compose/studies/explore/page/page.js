/* Without a kernel: the model of forward.js answers what the page asks. */

const CURVES = ["mean", "max", "sum", "last", "first"];

class Answers {
  constructor(model) {
    this.model = model;
    this.asked = new Map(model.definitions);
  }

  about() {
    const { model } = this;
    return {
      model: model.name,
      kind: "decoder",
      n_layers: model.n_layers,
      n_encoder_layers: 0,
      n_heads: model.n_heads,
      poolings: Object.keys(HOW),
      can: { pool: true, words: true, heads: false, transplant: false },
      examples: model.definitions,
    };
  }

  ask({ part, state, layers }) {
    let reading = null;
    try {
      reading = this.model.read(state.text);
      const filled = this.filled(state, reading);
      const values = part === "curve" ? null : this.values(filled, reading);
      return values ? { values } : { curve: this.curve(filled, reading, layers) };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { refused: error.message, words: reading ? shown(reading) : undefined };
    }
  }

  filled(state, { words }) {
    const units = state.units ?? words.flatMap(({ pieces }, i) => (pieces.length > 1 ? [[i, i + 1]] : []));
    return { ...state, units };
  }

  /** Whether some unit has several tokens. */
  pools({ units }, { words }) {
    return units.some(([first, stop]) => words[stop - 1].to - words[first].from > 1);
  }

  answer(state, clean) {
    const { model } = this;
    const plain = state.text.split(/\s+/).filter(Boolean).join(" ");
    return state.answer || this.asked.get(plain) || shownToken(model, likeliest(clean, 1)[0]);
  }

  values(state, reading) {
    const { model } = this;
    const whole = model.under(reading, []).clean();
    const asked = this.answer(state, whole);
    const id = model.answer(asked);
    const under = model.under(reading, state.knocked_out);
    const apart = under.clean();
    const pools = this.pools(state, reading);
    const mixed = state.units.some(([first, stop]) => {
      const gone = state.knocked_out.filter((word) => first <= word && word < stop).length;
      return gone > 0 && gone < stop - first;
    });
    if (mixed) {
      throw new Refusal(
        "Some words of a phrase are knocked out and some are not, and a pooled vector cannot tell them apart.",
      );
    }
    const now = pools ? under.pooled(state.units, state.layer, state.how) : apart;
    const rank = (logs) => 1 + logs.filter((x, i) => x > logs[id] || (x === logs[id] && i < id)).length;
    return {
      asked,
      measure: `log P(${asked})`,
      numbers: [
        ["Log-probability (nats)", whole[id], now[id], 4],
        ["Rank", rank(whole), rank(now), 0],
      ],
      probability: [whole[id], now[id]],
      top: likeliest(now, 5).map((each) => [
        shownToken(model, each),
        Math.exp(now[each]),
        each === id,
      ]),
      flat: apart[id],
      highest: 0,
      pools,
      step: model.n_layers,
      words: shown(reading),
      second_words: [],
      state,
      python: this.python(state, reading, asked, pools),
    };
  }

  curve(state, reading, layers) {
    const { model } = this;
    const id = model.answer(this.answer(state, model.under(reading, []).clean()));
    const under = model.under(reading, state.knocked_out);
    return layers.flatMap((layer) =>
      CURVES.map((how) => [layer, how, under.pooled(state.units, layer, how)[id]]),
    );
  }

  python({ units, knocked_out: gone, layer, how }, reading, asked, pools) {
    const { model } = this;
    const text = ([first, stop]) => reading.words.slice(first, stop).map((word) => word.text).join(" ");
    /** Texts of ranges of words, where they mean these ranges and no others. */
    const named = (ranges) => {
      const texts = [...new Set(ranges.map(text))];
      const n = reading.words.length;
      const here = texts.flatMap((each) => {
        const length = each.split(" ").length;
        return [...Array(n - length + 1).keys()].filter((i) => text([i, i + length]) === each);
      });
      return here.length === ranges.length ? list(texts) : null; // words mean every occurrence
    };
    const positions = () =>
      gone.flatMap((i) => {
        const { from, to } = reading.words[i];
        return Array.from({ length: to - from }, (_, k) => from + k);
      });
    const groups = () => {
      const each = reading.ids.map(() => -1);
      units.forEach(([first, stop], unit) =>
        each.fill(unit, reading.words[first].from, reading.words[stop - 1].to),
      );
      return `torch.tensor([${list(each)}])`;
    };
    const blocks = [];
    if (gone.length) {
      const keys = named(gone.map((i) => [i, i + 1])) ?? list(positions());
      blocks.push(`ic.mask_attention(model, keys=${keys})`);
    }
    if (pools) blocks.push(`ic.pool_at(model, ${layer}, ${named(units) ?? groups()}, "${how}")`);
    const call = "logits = model(prompt)[0, -1]";
    return [
      "import torch",
      "import interp_compose as ic",
      "",
      `model = ic.load_model(${JSON.stringify(model.source)})`,
      `prompt = ${JSON.stringify(reading.prompt)}`,
      ...(blocks.length ? [`with ${blocks.join(", \\\n     ")}:`, `    ${call}`] : [call]),
      "",
      `answer = ${model.answer(asked)}  # ${JSON.stringify(asked)}`,
      "now = torch.log_softmax(logits, dim=0)[answer]",
    ].join("\n");
  }
}

/** Of a token of byte-level BPE. */
function shownToken(model, id) {
  return model.vocabulary[id].replace("Ġ", " ");
}

function shown({ words }) {
  return words.map(({ text, pieces }) => ({ text, pieces }));
}

function likeliest(logProbs, n) {
  return [...logProbs.keys()].sort((a, b) => logProbs[b] - logProbs[a] || a - b).slice(0, n);
}

/** As Python writes it. */
function list(items) {
  return `[${items.map((item) => JSON.stringify(item)).join(", ")}]`;
}

const answers = new Answers(new SmallGpt2(EXPORTED));
const page = new Explorer(document.getElementById("explore"), {
  about: answers.about(),
  state: {
    text: EXPORTED.first,
    second: "",
    target: "",
    answer: null,
    units: null,
    second_units: null,
    layer: 0,
    how: "mean",
    knocked_out: [],
    second_knocked_out: [],
    heads: [],
    transplant: null,
  },
  ask: async (request) => answers.ask(request),
});
