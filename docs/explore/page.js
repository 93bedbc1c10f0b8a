"use strict";
/* The page around forward.js: what the reader has chosen, and everything that follows from it. */

const CURVES = ["mean", "max", "sum"];
const byId = (id) => document.getElementById(`x-${id}`);

/** An element with properties, attributes (by `attributes`) and children. */
function element(name, { attributes = {}, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

class Page {
  constructor(model) {
    this.model = model;
    this.answers = new Map(model.definitions);
    this.layer = 0;
    this.how = "mean";
    this.lay();
    this.choose("a young feline");
  }

  /** The parts that do not change. */
  lay() {
    const options = (values) => [...values].map((value) => element("option", { value }));
    byId("definitions").append(...options(this.answers.keys()));
    byId("answers").append(...options(new Set([...this.answers.values()].sort())));
    const radios = (name, values) =>
      byId(name).append(
        ...values.map((value) =>
          element(
            "label",
            {},
            element("input", {
              type: "radio",
              name: `x-${name}`,
              value,
              checked: value === this[name],
              onchange: () => this.change({ [name]: value }),
            }),
            element("span", { textContent: value }),
          ),
        ),
      );
    radios("layer", [...Array(this.model.n_layers).keys()]);
    radios("how", Object.keys(HOW));
    byId("text").onsubmit = (event) => event.preventDefault();
    byId("definition").oninput = () => this.type(byId("definition").value);
    byId("answer").oninput = () => this.change({ typed: byId("answer").value.trim() });
    byId("another").onclick = () => this.choose(this.any());
    byId("pool-all").onclick = () => this.change({ pooled: this.poolable() });
    byId("pool-none").onclick = () => this.change({ pooled: [] });
    byId("show-all").onclick = () => this.change({ hidden: [] });
    new ResizeObserver(() => this.curves && this.draw()).observe(byId("curve"));
  }

  any() {
    const { definitions } = this.model;
    return definitions[Math.floor(Math.random() * definitions.length)][0];
  }

  choose(definition) {
    byId("definition").value = definition;
    this.type(definition);
  }

  /** Another definition: all its words are pooled, none is hidden. */
  type(definition) {
    this.typed = byId("answer").value = "";
    this.reading = null;
    this.refusing(() => {
      this.reading = this.model.read(definition);
      this.definition = definition.split(/\s+/).filter(Boolean).join(" ");
      this.pooled = this.poolable();
      this.hidden = [];
      this.update();
    });
  }

  change(chosen) {
    Object.assign(this, chosen);
    if (this.reading) this.refusing(() => this.update());
  }

  /** Under a refusal, the results of before are dimmed and cannot be used. */
  refusing(work) {
    let message = "";
    try {
      work();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      message = error.message;
    }
    byId("refusal").textContent = message;
    byId("rest").inert = message !== "";
  }

  poolable() {
    return this.reading.words.flatMap(({ pieces }, i) => (pieces.length > 1 ? [i] : []));
  }

  /** All numbers, and all that shows them. */
  update() {
    const { model, reading, layer, how, pooled, hidden } = this;
    const whole = model.under(reading, []).clean();
    this.answer =
      this.typed || this.answers.get(this.definition) || model.vocabulary[likeliest(whole, 1)[0]];
    const id = model.answer(this.answer);
    const under = model.under(reading, hidden);
    const apart = under.clean();
    this.unpooled = apart[id];
    this.curves = new Map(
      (CURVES.includes(how) ? CURVES : [...CURVES, how]).map((each) => [
        each,
        Array.from({ length: model.n_layers }, (_, at) =>
          pooled.length ? under.pooled(pooled, at, each)[id] : apart[id],
        ),
      ]),
    );
    const now = pooled.length ? under.pooled(pooled, layer, how) : apart;
    if (document.activeElement !== byId("answer")) byId("answer").value = this.answer;
    this.showWords();
    this.showNumbers(whole, now, id);
    this.showTop(now, id);
    this.draw();
    byId("python").textContent = this.python();
  }

  showWords() {
    const { words } = this.reading;
    const focus = document.activeElement?.dataset?.x;
    const toggled = (name, i) => () => {
      const others = this[name].filter((each) => each !== i);
      const on = others.length === this[name].length;
      this.change({ [name]: on ? [...others, i].sort((a, b) => a - b) : others });
    };
    const button = (name, i, label, ...content) =>
      element(
        "button",
        {
          type: "button",
          className: `x-${name}`,
          onclick: toggled(name, i),
          attributes: {
            "aria-pressed": this[name].includes(i),
            "aria-label": label,
            "data-x": `${name} ${i}`,
          },
        },
        ...content,
      );
    byId("words").replaceChildren(
      ...words.map(({ text, pieces }, i) => {
        const parts = pieces.map((piece) => element("span", { textContent: piece }));
        const pool = button("pooled", i, `pool “${text}”, ${pieces.length} pieces`, ...parts);
        const hide = button("hidden", i, `hide “${text}”`, "hide");
        if (pieces.length === 1) {
          pool.disabled = true;
          pool.title = "One piece: nothing to pool.";
          pool.setAttribute("aria-label", `“${text}”, one piece`);
        }
        return element("li", { className: this.hidden.includes(i) ? "x-gone" : "" }, pool, hide);
      }),
    );
    if (focus) document.querySelector(`[data-x="${focus}"]`)?.focus();
  }

  showNumbers(whole, now, id) {
    const rank = (logProbs) =>
      1 + logProbs.filter((x, i) => x > logProbs[id] || (x === logProbs[id] && i < id)).length;
    const rows = [
      ["Probability", (logProbs) => Math.exp(logProbs[id]).toFixed(3)],
      ["Log-probability (nats)", (logProbs) => number(logProbs[id], 4)],
      ["Rank", rank],
    ];
    byId("numbers").replaceChildren(
      element("caption", {}, "Asked for: ", element("b", { textContent: this.answer })),
      row("th", "", "clean", "now"),
      ...rows.map(([name, of]) => row("td", name, of(whole), of(now))),
    );
  }

  showTop(now, id) {
    byId("top").replaceChildren(
      ...likeliest(now, 5).map((each) => {
        const probability = Math.exp(now[each]);
        const bar = element("i");
        bar.style.width = `${(100 * probability).toFixed(1)}%`;
        return element(
          "li",
          { className: each === id ? "x-right" : "" },
          element("span", { textContent: this.model.vocabulary[each].replace("Ġ", "␣") }),
          element("span", { className: "x-bar", attributes: { "aria-hidden": true } }, bar),
          element("span", { textContent: probability.toFixed(3) }),
        );
      }),
    );
  }

  // ---------------------------------------------------------------- the curve

  draw() {
    const { curves, unpooled, layer, how } = this;
    const shown = this.pooled.length ? [...curves] : [];
    const alone = this.hidden.length ? "only hidden" : "not pooled";
    byId("curve-title").textContent = `log P(${this.answer}), by the layer of pooling`;
    byId("values").replaceChildren(
      row("th", "layer", ...Array(this.model.n_layers).keys()),
      ...[...curves].map(([name, values]) => row("td", name, ...values.map((x) => number(x, 2)))),
      row("td", alone, ...Array(this.model.n_layers).fill(number(unpooled, 2))),
    );
    const [width, height] = [Math.max(byId("curve").clientWidth, 240), 250];
    const plot = { left: 44, right: width - 86, top: 12, bottom: height - 40 };
    const ticks = scale(Math.min(unpooled, ...[...curves.values()].flat()));
    const [low, high] = [ticks[0], ticks[ticks.length - 1]];
    const x = (at) => plot.left + 14 + (at / (this.model.n_layers - 1)) * (plot.right - plot.left - 28);
    const y = (value) => plot.bottom - ((value - low) / (high - low)) * (plot.bottom - plot.top);
    const image = svg("svg", {
      width,
      height,
      role: "img",
      "aria-label": `Log-probability of ${this.answer} against the layer of pooling; see Values.`,
    });
    for (const tick of ticks) {
      image.append(
        svg("line", { class: "x-grid", x1: plot.left, x2: plot.right, y1: y(tick), y2: y(tick) }),
        svg("text", { x: plot.left - 8, y: y(tick) + 4, "text-anchor": "end" }, number(tick, ticks[1] - ticks[0] < 1 ? 1 : 0)),
      );
    }
    for (let at = 0; at < this.model.n_layers; at += 1) {
      image.append(svg("text", { x: x(at), y: plot.bottom + 18, "text-anchor": "middle" }, at));
    }
    image.append(
      svg("text", { x: (plot.left + plot.right) / 2, y: height - 4, "text-anchor": "middle" }, "layer"),
      svg("line", { class: "x-clean", x1: plot.left, x2: plot.right, y1: y(unpooled), y2: y(unpooled) }),
    );
    for (const [name, values] of shown) {
      const points = values.map((value, at) => `${x(at)},${y(value)}`);
      image.append(svg("polyline", { class: `x-line x-${name}`, points: points.join(" ") }));
      values.forEach((value, at) => {
        const mark = svg("path", { class: `x-mark x-${name}`, d: MARKS[name](x(at), y(value)) });
        mark.append(svg("title", {}, `${name}, layer ${at}: ${number(value, 3)}`));
        mark.onclick = () => this.pick(at, name);
        image.append(mark);
      });
    }
    if (this.pooled.length) {
      const value = curves.get(how)[layer];
      image.append(svg("circle", { class: "x-chosen", cx: x(layer), cy: y(value), r: 10 }));
    }
    const ends = shown.map(([name, values]) => [name, y(values[values.length - 1])]);
    ends.push([alone, y(unpooled)]);
    for (const [name, at] of apart(ends, 15, plot)) {
      image.append(
        svg("text", { class: `x-name x-${name.replace(" ", "-")}`, x: plot.right + 8, y: at + 4 }, name),
      );
    }
    byId("curve").replaceChildren(image);
  }

  pick(layer, how) {
    for (const [name, value] of Object.entries({ layer, how })) {
      document.querySelector(`[name="x-${name}"][value="${value}"]`).checked = true;
    }
    this.change({ layer, how });
  }

  // ---------------------------------------------------------------- the same in Python

  python() {
    const { model, reading, layer, how, pooled, hidden, answer } = this;
    const listed = (words) => {
      const texts = [...new Set(words.map((i) => reading.words[i].text))];
      const here = reading.words.filter(({ text }) => texts.includes(text)).length;
      return here === words.length ? list(texts) : null; // words mean every occurrence
    };
    const positions = (words) =>
      words.flatMap((i) => {
        const { from, to } = reading.words[i];
        return Array.from({ length: to - from }, (_, k) => from + k);
      });
    const units = () => {
      const groups = reading.ids.map(() => -1);
      pooled.forEach((i, unit) => groups.fill(unit, reading.words[i].from, reading.words[i].to));
      return `torch.tensor([${list(groups)}])`;
    };
    const blocks = [];
    if (hidden.length) {
      blocks.push(`ic.mask_attention(model, keys=${listed(hidden) ?? list(positions(hidden))})`);
    }
    if (pooled.length) blocks.push(`ic.pool_at(model, ${layer}, ${listed(pooled) ?? units()}, "${how}")`);
    const call = "logits = model(prompt)[0, -1]";
    const lines = [
      "import torch",
      "import interp_compose as ic",
      "",
      `model = ic.load_model("${model.name}")`,
      `prompt = '${reading.prompt}'`,
      ...(blocks.length ? [`with ${blocks.join(", \\\n     ")}:`, `    ${call}`] : [call]),
      "",
      `answer = model.tokenizer.convert_tokens_to_ids("${answer}")`,
      "torch.log_softmax(logits, dim=0)[answer]",
    ];
    return lines.join("\n");
  }
}

function likeliest(logProbs, n) {
  return [...logProbs.keys()].sort((a, b) => logProbs[b] - logProbs[a] || a - b).slice(0, n);
}

/** With a true minus, and none before a zero. */
function number(x, digits) {
  const text = Math.abs(x).toFixed(digits);
  return (x < 0 && Number(text) ? "−" : "") + text;
}

/** As Python writes it. */
function list(items) {
  return `[${items.map((item) => JSON.stringify(item)).join(", ")}]`;
}

function row(cell, ...texts) {
  const [first, ...others] = texts;
  return element(
    "tr",
    {},
    element("th", { textContent: first, scope: "row" }),
    ...others.map((textContent) => element(cell, { textContent })),
  );
}

function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Ticks from below the lowest value to 0, four to six of them. */
function scale(lowest) {
  const step = [0.5, 1, 2, 5, 10, 20].find((each) => -lowest / each <= 5) ?? 50;
  const n = Math.max(Math.ceil(-lowest / step), 2);
  return Array.from({ length: n + 1 }, (_, i) => (i - n) * step);
}

/** Names at the lines' ends, moved so that none lies on another. */
function apart(ends, gap, { top, bottom }) {
  const sorted = [...ends].sort((a, b) => a[1] - b[1]);
  sorted.forEach((each, i) => {
    each[1] = Math.max(each[1], i ? sorted[i - 1][1] + gap : top);
  });
  sorted.reverse().forEach((each, i) => {
    each[1] = Math.min(each[1], i ? sorted[i - 1][1] - gap : bottom);
  });
  return sorted;
}

const polygon = (...corners) => (x, y) => `M${corners.map(([a, b]) => `${x + a},${y + b}`).join("L")}Z`;
const MARKS = {
  mean: (x, y) => `M${x - 5},${y}a5,5 0 1,0 10,0a5,5 0 1,0 -10,0Z`,
  max: polygon([-4.5, -4.5], [4.5, -4.5], [4.5, 4.5], [-4.5, 4.5]),
  sum: polygon([0, -6.5], [6.5, 0], [0, 6.5], [-6.5, 0]),
  last: polygon([0, -6], [6, 5], [-6, 5]),
  first: polygon([0, 6], [6, -5], [-6, -5]),
};

const page = new Page(new MiniIdm(MINI_IDM));
