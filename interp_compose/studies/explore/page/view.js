"use strict";
/*
 * What is seen and clicked. It knows no model: `ask` is given a state and returns a promise of its
 * values, which the notebook's kernel computes, or the page itself (forward.js).
 *
 *   ask({ part: "values", state }) -> { values } or { refused, words } or { failed }
 *   ask({ part: "curve", state, layers }) -> { curve: [[layer, pooling, value], …] } or the same
 *
 * States and values are described in state.py and answer.py.
 */

const SLOW = 300; // ms after which the page says that the model is running
const SILENT = 15000; // ms after which it says that nothing came
const NEW_LINE = "↵"; // in a field, which has one line
const CLOSE = 1e-4; // nats, or a cosine, by which two ways to the same number may differ
const MANY = 12; // layers from which on a slider is shown

/** An element with properties, attributes (by `attributes`) and children. */
function element(name, { attributes = {}, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

class Explorer {
  /**
   * about: what answer.py says of the model, and `examples`, pairs of a text and its answer ("":
   * the model's own); state: the first; tell: is given each state that is chosen here.
   */
  constructor(root, { about, state, ask, tell = () => {}, wait = 0 }) {
    Object.assign(this, { root, about, state, ask, tell, wait });
    this.answers = new Map(about.examples);
    this.turn = 0; // counts what was chosen
    this.done = 0; // the last turn that was answered
    this.lay();
    this.fill();
    this.request();
  }

  part(name) {
    return this.root.querySelector(`[data-x="${name}"]`);
  }

  // ---------------------------------------------------------------- the parts that stay

  lay() {
    const { about, root } = this;
    const of = (name, tag = "div", properties = {}, ...children) => {
      const { attributes, ...rest } = properties;
      return element(tag, { ...rest, attributes: { "data-x": name, ...attributes } }, ...children);
    };
    const list = `x-list-${Math.random().toString(36).slice(2)}`;
    const field = (name, label, wide = false) =>
      element(
        "label",
        { className: wide ? "x-wide" : "" },
        element("span", { className: "x-label" }, label),
        of(name, "input", {
          spellcheck: false,
          autocomplete: "off",
          attributes: { autocapitalize: "none", enterkeyhint: "done" },
        }),
      );
    const kind = about.kind;
    const texts = [field("text", kind === "encoder-decoder" ? "Source" : "Text", true)];
    if (kind === "encoder") texts.push(field("second", "Second text", true));
    if (kind !== "encoder") texts.push(field("answer", kind === "decoder" ? "Answer" : "Target"));
    if (about.examples.length > 1) {
      texts.push(of("another", "button", { type: "button" }, "Another"));
    }
    const form = of("form", "form", { className: "x-text" }, ...texts);
    const choices = element("div", { className: "x-choices" });
    const hints = [];
    if (about.can.pool) {
      hints.push("Click a word to pool its pieces, or not; drag over several to pool a phrase.");
      choices.append(
        of("layer", "fieldset", {}, element("legend", {}, "At layer"), this.layers()),
        of("how", "fieldset", {}, element("legend", {}, "Pool by"), this.radios("how", about.poolings)),
      );
    }
    const all = element("div", { className: "x-all" });
    if (about.can.pool) {
      all.append(
        of("pool-all", "button", { type: "button" }, "Pool all words"),
        of("pool-none", "button", { type: "button" }, "Pool none"),
      );
    }
    if (about.can.words) {
      hints.push("“knock out” keeps all other words from attending to it.");
      all.append(of("knock-none", "button", { type: "button" }, "Knock out none"));
    }
    choices.append(all);
    const words = (name, label) =>
      of(name, "ol", { className: "x-words", attributes: { "aria-label": label } });
    const more = element("div", { className: "x-more" });
    if (about.can.heads) {
      const grid = of("heads", "div", { className: "x-heads" });
      const details = element("details", {}, of("heads-title", "summary"), grid);
      details.addEventListener("toggle", () => this.showHeads());
      more.append(details);
    }
    if (about.can.transplant) {
      more.append(
        of(
          "transplant",
          "details",
          {},
          element("summary", {}, "Transplant a phrase"),
          element("p", { className: "x-hint" }, "Click a word of the second text, or drag over a phrase: its vector takes the place of a phrase of the text, at the layer above."),
          element("div", { className: "x-text" }, field("second", "Second text", true)),
          words("second-words", "The words of the second text"),
          element(
            "label",
            { className: "x-place" },
            "in the place of ",
            of("place", "select"),
          ),
        ),
      );
    }
    root.classList.add("explore");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", `pooling and knock-outs of ${about.model}`);
    root.replaceChildren(
      form,
      element("datalist", { id: list }, ...about.examples.map(([text]) => element("option", { value: lines(text) }))),
      of("message", "p", { className: "x-message", attributes: { role: "alert" } }),
      of(
        "status",
        "p",
        { className: "x-status", attributes: { role: "status" } },
        of("progress", "progress", { hidden: true, attributes: { "aria-label": "progress of the curve" } }),
        of("status-text", "span"),
        of("stop", "button", { type: "button", hidden: true }, "Stop"),
      ),
      of(
        "rest",
        "div",
        {},
        element("p", { className: "x-hint" }, hints.join(" ")),
        words("words", "The words of the text"),
        ...(kind === "encoder" ? [words("second-words", "The words of the second text")] : []),
        choices,
        more,
        of(
          "results",
          "div",
          {},
          element(
            "div",
            { className: "x-results" },
            element(
              "section",
              { attributes: { "aria-live": "polite" } },
              of("numbers", "table"),
              of("top-title", "h3", { className: "x-title" }, "The model's top five"),
              of("top", "ol", { className: "x-top" }),
            ),
            of(
              "curve-section",
              "section",
              {},
              of("curve-title", "h3", { className: "x-title" }),
              of("curve", "div", { className: "x-curve" }),
              element(
                "details",
                {},
                element("summary", {}, "Values"),
                element("div", { className: "x-wide-table" }, of("values", "table")),
              ),
            ),
          ),
          element(
            "details",
            { open: true },
            element("summary", {}, "The same in Python"),
            of("python", "pre", { tabIndex: 0 }),
          ),
        ),
      ),
    );
    if (about.examples.length) this.part("text").setAttribute("list", list);
    this.listen();
  }

  layers() {
    const { n_layers: n } = this.about;
    if (n <= MANY) return this.radios("layer", [...Array(n).keys()]);
    const value = element("output", { value: this.state.layer });
    const slider = element("input", {
      type: "range",
      min: 0,
      max: n - 1,
      value: this.state.layer,
      oninput: () => {
        value.value = slider.value;
        this.change({ layer: Number(slider.value) });
      },
      attributes: { "data-x": "layer-slider", "aria-label": "layer" },
    });
    return element("span", { className: "x-slider" }, slider, value);
  }

  radios(name, values) {
    const group = `x-${name}-${Math.random().toString(36).slice(2)}`;
    return element(
      "span",
      { className: "x-radios" },
      ...values.map((value) =>
        element(
          "label",
          {},
          element("input", {
            type: "radio",
            name: group,
            value,
            onchange: () => this.change({ [name]: value }),
            attributes: { "data-x": `${name} ${value}` },
          }),
          element("span", { textContent: value }),
        ),
      ),
    );
  }

  listen() {
    const on = (name, event, work) => this.part(name)?.addEventListener(event, work);
    on("form", "submit", (event) => event.preventDefault());
    for (const name of ["text", "second", "answer"])
      for (const way of ["paste", "drop"]) on(name, way, brought);
    on("text", "input", () => this.type(this.typed("text")));
    on("second", "input", () =>
      this.change(
        { second: this.typed("second"), second_units: null, second_knocked_out: [], transplant: null },
        this.wait,
      ),
    );
    on("answer", "input", () => this.change({ answer: this.typed("answer") || null }, this.wait));
    on("stop", "click", () => this.stop());
    on("another", "click", () => this.choose(this.any()));
    on("pool-all", "click", () => this.change({ units: null, second_units: null, transplant: null }));
    on("pool-none", "click", () => this.change({ units: [], second_units: [], transplant: null }));
    on("knock-none", "click", () => this.change({ knocked_out: [], second_knocked_out: [], heads: [] }));
    on("place", "change", () => this.place(this.part("place").value));
    for (const name of ["words", "second-words"]) this.drags(name);
    new ResizeObserver(() => this.curve && this.draw()).observe(this.part("curve"));
    const theme = () => this.root.toggleAttribute("data-dark", isDark(this.root));
    theme();
    new MutationObserver(theme).observe(document.body, { attributes: true });
    new MutationObserver(theme).observe(document.documentElement, { attributes: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
  }

  typed(name) {
    return this.part(name).value.replaceAll(NEW_LINE, "\n");
  }

  /** What is typed or chosen, in the fields that show it. */
  fill() {
    const { state } = this;
    const focused = this.root.getRootNode().activeElement;
    for (const name of ["text", "second"]) {
      const field = this.part(name);
      if (field && field !== focused) field.value = lines(state[name]);
    }
    const slider = this.part("layer-slider");
    if (slider) {
      slider.value = state.layer;
      slider.nextSibling.value = state.layer;
    }
    for (const name of ["layer", "how"]) {
      const radio = this.part(`${name} ${state[name]}`);
      if (radio) radio.checked = true;
    }
  }

  // ---------------------------------------------------------------- what is chosen

  any() {
    const { examples } = this.about;
    return examples[Math.floor(Math.random() * examples.length)][0];
  }

  choose(text) {
    this.part("text").value = lines(text);
    this.type(text, 0);
  }

  /** Another text: all its words are pooled, none is knocked out. */
  type(text, wait = this.wait) {
    const answer = this.answers.get(text) || null;
    this.change({ text, answer, units: null, knocked_out: [], transplant: null }, wait);
  }

  change(chosen, wait = 0) {
    this.state = { ...this.state, ...chosen };
    this.tell(this.state);
    this.fill();
    this.root.setAttribute("aria-busy", true);
    clearTimeout(this.timer);
    if (wait) this.timer = setTimeout(() => this.request(), wait);
    else this.request();
  }

  /** A state that was set elsewhere. */
  show(state) {
    if (JSON.stringify(state) === JSON.stringify(this.state)) return;
    this.state = state;
    this.fill();
    this.request();
  }

  // ---------------------------------------------------------------- what is asked

  /** At most one question is under way; what is chosen meanwhile is asked after it. */
  request() {
    this.turn += 1;
    if (!this.asking || this.silent) this.asked();
  }

  async asked() {
    this.asking = true;
    this.root.setAttribute("aria-busy", true);
    this.silent = false;
    const loop = (this.loop = (this.loop ?? 0) + 1); // an earlier one, left without an answer, ends
    while (this.done !== this.turn) {
      const { turn } = this;
      const stop = this.waiting();
      const reply = await this.reply({ part: "values", state: this.answered(this.state) });
      if (loop !== this.loop) return;
      stop();
      if (turn !== this.turn) continue;
      this.tell_of(reply);
      if (reply.values) {
        this.values = reply.values;
        this.generated = [`${this.state.text}\n${this.state.target}`, reply.values.asked];
        this.showAll();
        await this.ask_curve(turn, loop);
        if (loop !== this.loop) return;
      }
      if (turn === this.turn) this.done = turn;
    }
    this.asking = false;
    this.root.setAttribute("aria-busy", false);
  }

  /** What was asked is no longer waited for; the kernel may be at it still. */
  stop() {
    this.loop += 1;
    this.asking = false;
    this.stop_waiting?.();
    this.done = this.turn;
    this.root.setAttribute("aria-busy", false);
    this.tell_of({ failed: "Stopped: what is shown is not, or not wholly, of this choice." });
  }

  /** Of an encoder–decoder, the state with the target that it generated: one generation a text. */
  answered(state) {
    const [from, asked] = this.generated ?? [];
    const known = this.about.kind === "encoder-decoder" && from === `${state.text}\n${state.target}`;
    return known && state.answer === null ? { ...state, answer: asked } : state;
  }

  /** What a curve over all layers is of: what is chosen but for layer and pooling, and the clean number. */
  whole_of({ state, numbers }) {
    return JSON.stringify([{ ...state, layer: null, how: state.transplant && state.how }, numbers[0][1]]);
  }

  /** Whether the curve that is there is of it, and has at its layer and pooling what the model gives now. */
  has_curve_of(values) {
    const { state, numbers } = values;
    const point = this.curve?.get(state.transplant ? "transplant" : state.how)?.[state.layer];
    return this.whole === this.whole_of(values) && Math.abs(point - numbers[0][2]) < CLOSE;
  }

  async ask_curve(turn, loop) {
    const { values, about } = this;
    if (this.has_curve_of(values)) return this.draw();
    this.whole = null;
    this.curve = new Map();
    this.draw();
    if (!values.pools || !about.can.pool) return;
    for (let first = 0; first < about.n_layers; first += values.step) {
      const count = Math.min(values.step, about.n_layers - first);
      const layers = Array.from({ length: count }, (_, i) => first + i);
      if (first) this.progress(first, about.n_layers, "layers of the curve");
      const stop = first ? () => {} : this.waiting();
      const reply = await this.reply({ part: "curve", state: this.answered(values.state), layers });
      if (loop !== this.loop) return;
      stop();
      if (turn !== this.turn) return;
      if (!reply.curve) {
        this.tell_of(reply);
        return;
      }
      for (const [layer, name, value] of reply.curve) {
        if (!this.curve.has(name)) this.curve.set(name, Array(about.n_layers).fill(null));
        this.curve.get(name)[layer] = value;
      }
      this.draw();
    }
    this.progress();
    this.whole = this.whole_of(values);
  }

  async reply(request) {
    try {
      return await this.ask(request);
    } catch (error) {
      return { failed: `The page failed: ${error.message ?? error}` };
    }
  }

  /** After a while the page says that it waits. */
  waiting() {
    const slow = setTimeout(() => this.progress(null, 1, "the model is running …"), SLOW);
    const silent = setTimeout(() => {
      this.silent = true; // what is chosen next is asked at once
      this.progress(null, 1, "no answer yet: the kernel is busy with something else, or gone");
    }, SILENT);
    return (this.stop_waiting = () => {
      clearTimeout(slow);
      clearTimeout(silent);
      this.progress();
    });
  }

  /** `done` null: how far is not known; without arguments: nothing is under way. */
  progress(done, of, what) {
    const bar = this.part("progress");
    bar.hidden = this.part("stop").hidden = what === undefined;
    this.part("status-text").textContent =
      what === undefined ? "" : done === null ? what : `${done} of ${of} ${what}`;
    if (done === null || done === undefined) bar.removeAttribute("value");
    else Object.assign(bar, { max: of, value: done });
  }

  /** A refusal or a failure in words; what it no longer describes is dimmed and cannot be used. */
  tell_of({ refused, failed, words, second_words: second, values, curve }) {
    const message = this.part("message");
    message.textContent = refused ?? failed ?? "";
    this.progress();
    if (failed) {
      const again = element("button", { type: "button", onclick: () => this.request() }, "Try again");
      message.append(" ", again);
    }
    const wrong = !values && !curve;
    this.part("results").inert = wrong;
    this.part("rest").inert = Boolean(refused && !words && !failed);
    if (refused && words) {
      const kept = this.values ?? {};
      this.values = { ...kept, words, second_words: second ?? [], state: this.filled(kept, words) };
      this.showWords();
    }
  }

  /** A state that was refused, with its units as far as they are known. */
  filled(kept, words) {
    const same = kept.words && JSON.stringify(kept.words) === JSON.stringify(words);
    return {
      ...this.state,
      units: this.state.units ?? (same ? kept.state.units : []),
      second_units: this.state.second_units ?? (same ? kept.state.second_units : []),
    };
  }

  // ---------------------------------------------------------------- words, clicked and dragged over

  /** Of a list of words: its words, and the names of what is chosen in it. */
  side(name) {
    const second = name === "second-words";
    return {
      words: second ? this.values.second_words : this.values.words,
      units: second ? "second_units" : "units",
      knocked: second ? "second_knocked_out" : "knocked_out",
      picks: second && this.about.kind === "decoder", // a phrase to transplant
    };
  }

  ranges(name) {
    const { units, picks } = this.side(name);
    const { state } = this.values;
    if (picks) return state.transplant ? [state.transplant[0]] : [];
    if (state.transplant) return [state.transplant[1]];
    return state[units] ?? [];
  }

  /** A phrase is chosen, or one word; a range that is chosen already is no longer. */
  toggle(name, [first, stop]) {
    const { words, units, picks } = this.side(name);
    const ranges = this.ranges(name);
    if (picks) {
      const target = this.values.state.transplant?.[1] ?? this.opposite([first, stop]);
      const same = ranges.some(([a, b]) => a === first && b === stop);
      this.change({ transplant: same ? null : [[first, stop], target], knocked_out: [], heads: [] });
      return;
    }
    const inside = ranges.find(([a, b]) => a <= first && first < b);
    const one = stop - first === 1;
    const others = ranges.filter(([a, b]) => b <= first || stop <= a);
    const off = inside && (one || (inside[0] === first && inside[1] === stop));
    if (!off && one && words[first].pieces.length === 1) return; // nothing to pool
    const chosen = off ? others : [...others, [first, stop]].sort((a, b) => a[0] - b[0]);
    this.change({ [units]: chosen, transplant: null });
  }

  /** The phrase of the text that a transplant replaces at first: the one in the same place. */
  opposite([first, stop]) {
    const n = this.values.words.length;
    const start = Math.min(first, Math.max(n - 2, 0));
    const unit = (this.values.state.units ?? []).find(([a, b]) => a <= start && start < b);
    return unit ?? [start, Math.min(Math.max(stop, start + 1), Math.max(n - 1, 1))];
  }

  place(value) {
    const { transplant } = this.values.state;
    if (value && transplant) this.change({ transplant: [transplant[0], JSON.parse(value)] });
    else this.change({ transplant: null });
  }

  drags(name) {
    const list = this.part(name);
    if (!list) return;
    let anchor = null;
    let reach = null;
    const wordAt = (event) => {
      const under = this.root.getRootNode().elementFromPoint(event.clientX, event.clientY);
      const word = under?.closest?.("[data-word]");
      return word && list.contains(word) ? Number(word.dataset.word) : null;
    };
    const mark = () => {
      const [low, high] = reach === null ? [1, 0] : [Math.min(anchor, reach), Math.max(anchor, reach)];
      for (const word of list.querySelectorAll("[data-word]")) {
        const at = Number(word.dataset.word);
        word.classList.toggle("x-drag", low < high && low <= at && at <= high);
      }
    };
    const end = () => {
      const range = reach === null || reach === anchor ? null : [Math.min(anchor, reach), Math.max(anchor, reach) + 1];
      anchor = reach = null;
      mark();
      return range;
    };
    list.addEventListener("pointerdown", (event) => {
      anchor = reach = event.button === 0 && event.target.closest("[data-word]") ? wordAt(event) : null;
    });
    list.addEventListener("pointermove", (event) => {
      if (anchor === null) return;
      reach = wordAt(event) ?? reach;
      if (reach !== anchor && !list.hasPointerCapture(event.pointerId)) list.setPointerCapture(event.pointerId);
      mark();
    });
    let dragged = false;
    list.addEventListener("pointerup", () => {
      const range = end();
      dragged = range !== null;
      setTimeout(() => (dragged = false)); // after the click that follows
      if (range) this.toggle(name, range);
    });
    list.addEventListener("pointercancel", end);
    list.addEventListener("click", (event) => {
      const word = event.target.closest("[data-word]");
      if (!word || dragged) return;
      const at = Number(word.dataset.word);
      const range = end() ?? [at, at + 1];
      this.toggle(name, range);
    });
    // Arrows go from word to word; with Shift they extend a phrase, which Enter chooses.
    list.addEventListener("keydown", (event) => {
      const word = event.target.closest("[data-word]");
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!word) return;
      if (event.key === "Escape") end();
      if (step) {
        const at = Number(word.dataset.word);
        const next = list.querySelector(`[data-word="${(event.shiftKey ? (reach ?? at) : at) + step}"]`);
        event.preventDefault();
        if (!next) return;
        if (!event.shiftKey) {
          end();
          next.focus();
          return;
        }
        if (anchor === null) anchor = at;
        reach = Number(next.dataset.word);
        mark();
        this.part("status-text").textContent = `from word ${Math.min(anchor, reach) + 1} to ${Math.max(anchor, reach) + 1}; Enter chooses them`;
      } else if (event.key === "Enter" || event.key === " ") {
        const range = end();
        if (!range) return;
        event.preventDefault();
        this.part("status-text").textContent = "";
        this.toggle(name, range);
      }
    });
  }

  // ---------------------------------------------------------------- what is shown

  showAll() {
    const { values } = this;
    const answer = this.part("answer");
    if (answer && answer !== this.root.getRootNode().activeElement) answer.value = lines(values.asked ?? "");
    this.showWords();
    this.showHeads();
    this.showNumbers();
    this.showTop();
    this.part("python").textContent = values.python;
  }

  showWords() {
    const tree = this.root.getRootNode();
    const focus = tree.activeElement?.dataset?.key;
    this.showList("words");
    if (this.part("second-words")) this.showList("second-words");
    if (focus) this.root.querySelector(`[data-key="${focus}"]`)?.focus();
    const place = this.part("place");
    if (!place) return;
    const { words, state } = this.values;
    const chosen = state.transplant?.[1];
    const phrases = words.slice(0, -1).map((_, i) => [i, i + 1]);
    for (const range of [...(state.units ?? []), ...(chosen ? [chosen] : [])]) {
      if (!phrases.some(([a, b]) => a === range[0] && b === range[1])) phrases.push(range);
    }
    place.replaceChildren(
      element("option", { value: "" }, "nothing: no transplant"),
      ...phrases.map(([first, stop]) =>
        element("option", {
          value: JSON.stringify([first, stop]),
          textContent: words.slice(first, stop).map(({ text }) => text).join(" "),
          selected: Boolean(chosen && chosen[0] === first && chosen[1] === stop),
        }),
      ),
    );
    place.disabled = !state.transplant;
  }

  showList(name) {
    const { words, knocked, picks } = this.side(name);
    const { state } = this.values;
    const ranges = this.ranges(name);
    const items = [];
    for (let at = 0; at < words.length; ) {
      const unit = ranges.find(([first]) => first === at);
      const stop = unit ? unit[1] : at + 1;
      const inside = [];
      for (let i = at; i < stop; i += 1) inside.push(this.word(name, i, unit, words, knocked, picks));
      items.push(
        element("li", { className: unit ? "x-unit x-on" : "x-unit" }, ...inside),
      );
      at = stop;
    }
    this.part(name).replaceChildren(...items);
    this.part(name).classList.toggle("x-aside", Boolean(state.transplant) && !picks);
  }

  word(name, i, unit, words, knocked, picks) {
    const { text, pieces } = words[i];
    const gone = this.values.state[knocked].includes(i);
    const phrase = unit ? words.slice(...unit).map((word) => word.text).join(" ") : text;
    const alone = pieces.length === 1 && !unit;
    const label = picks
      ? `transplant “${phrase}”`
      : unit
        ? `pool “${phrase}”`
        : alone
          ? `“${text}”, one piece`
          : `pool “${text}”, ${pieces.length} pieces`;
    const pool = element(
      "button",
      {
        type: "button",
        className: "x-pooled",
        attributes: {
          "data-word": i,
          "data-key": `${name} pool ${i}`,
          "aria-pressed": Boolean(unit),
          "aria-label": label,
        },
      },
      ...pieces.map((piece) => element("span", { textContent: visible(piece) })),
    );
    if (alone && !picks) {
      pool.title = "One piece: alone there is nothing to pool. Drag over it and its neighbours to pool a phrase.";
      pool.classList.add("x-alone");
    }
    const parts = [pool];
    if (this.about.can.words && !picks) {
      parts.push(
        element(
          "button",
          {
            type: "button",
            className: "x-knock",
            onclick: () => {
              const now = this.values.state[knocked];
              const chosen = gone ? now.filter((each) => each !== i) : [...now, i].sort((a, b) => a - b);
              this.change({ [knocked]: chosen, transplant: null });
            },
            attributes: {
              "data-key": `${name} knock ${i}`,
              "aria-pressed": gone,
              "aria-label": `knock out “${text}”`,
            },
          },
          "knock out",
        ),
      );
    }
    return element("span", { className: gone ? "x-word x-gone" : "x-word" }, ...parts);
  }

  showHeads() {
    const grid = this.part("heads");
    if (!grid || !this.values) return;
    const { n_layers: n, n_heads: heads } = this.about;
    const chosen = this.values.state.heads;
    this.part("heads-title").textContent = chosen.length
      ? `Heads knocked out: ${chosen.map(([layer, head]) => `${layer}.${head}`).join(", ")}`
      : "Knock out heads";
    if (!grid.closest("details").open) return;
    const focus = this.root.getRootNode().activeElement?.dataset?.key;
    const on = (layer, head) => chosen.some(([a, b]) => a === layer && b === head);
    const rows = Array.from({ length: n }, (_, layer) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, `layer ${layer}`),
        ...Array.from({ length: heads }, (_, head) =>
          element(
            "td",
            {},
            element(
              "button",
              {
                type: "button",
                onclick: () => {
                  const others = chosen.filter(([a, b]) => a !== layer || b !== head);
                  this.change({ heads: on(layer, head) ? others : [...others, [layer, head]], transplant: null });
                },
                attributes: {
                  "aria-pressed": on(layer, head),
                  "aria-label": `knock out head ${head} of layer ${layer}`,
                  "data-key": `head ${layer} ${head}`,
                },
              },
              `${head}`,
            ),
          ),
        ),
      ),
    );
    grid.replaceChildren(element("table", {}, ...rows));
    if (focus) this.root.querySelector(`[data-key="${focus}"]`)?.focus();
  }

  showNumbers() {
    const { asked, numbers, probability } = this.values;
    const rows = numbers.map(([name, clean, now, digits]) =>
      row("td", name, number(clean, digits), number(now, digits)),
    );
    if (probability) {
      const shown = probability.map((log) => {
        const text = Math.exp(log).toFixed(3);
        return text === "0.000" ? "< 0.001" : text;
      });
      rows.unshift(row("td", "Probability", ...shown));
    }
    const caption = element("caption", {});
    if (asked === null) caption.append("The two texts");
    else caption.append("Asked for: ", element("b", { textContent: visible(asked) }));
    this.part("numbers").replaceChildren(caption, row("th", "", "clean", "now"), ...rows);
  }

  showTop() {
    const { top } = this.values;
    this.part("top-title").hidden = this.part("top").hidden = !top.length;
    const asks = this.about.kind === "decoder";
    this.part("top").replaceChildren(
      ...top.map(([text, probability, isAnswer]) => {
        const bar = element("i");
        bar.style.width = `${(100 * probability).toFixed(1)}%`;
        const name = asks
          ? element("button", {
              type: "button",
              textContent: visible(text),
              title: "Show its probability",
              onclick: () => this.change({ answer: text }),
            })
          : element("span", { textContent: visible(text) });
        return element(
          "li",
          { className: isAnswer ? "x-right" : "" },
          name,
          element("span", { className: "x-bar", attributes: { "aria-hidden": true } }, bar),
          element("span", { textContent: probability.toFixed(3) }),
        );
      }),
    );
  }

  // ---------------------------------------------------------------- the curve

  draw() {
    const { values, curve, about } = this;
    const { layer, how, transplant, heads } = values.state;
    const n = about.n_layers;
    this.part("curve-section").hidden = !about.can.pool;
    const lines = [...curve];
    const knocked = values.state.knocked_out.length || values.state.second_knocked_out.length || heads.length;
    const alone = knocked ? "only knocked out" : transplant ? "clean" : "not pooled";
    this.part("curve-title").textContent =
      `${values.measure}, by the layer of ${transplant ? "the transplant" : "pooling"}`;
    const known = lines.flatMap(([, each]) => each).filter((value) => value !== null);
    this.part("values").replaceChildren(
      row("th", "layer", ...Array(n).keys()),
      ...lines.map(([name, each]) => row("td", name, ...each.map((x) => (x === null ? "" : number(x, 2))))),
      row("td", alone, ...Array(n).fill(number(values.flat, 2))),
    );
    const [width, height] = [Math.max(this.part("curve").clientWidth, 240), 270];
    const plot = { left: 46, right: width - (transplant ? 122 : 108), top: 12, bottom: height - 42 };
    const ticks = scale(Math.min(values.flat, ...known), values.highest ?? Math.max(values.flat, ...known));
    const [low, high] = [ticks[0], ticks[ticks.length - 1]];
    const x = (at) => plot.left + 12 + (n > 1 ? at / (n - 1) : 0.5) * (plot.right - plot.left - 24);
    const y = (value) => plot.bottom - ((value - low) / (high - low)) * (plot.bottom - plot.top);
    const image = svg("svg", {
      width,
      height,
      role: "img",
      "aria-label": `${values.measure} against the layer; see Values.`,
    });
    const digits = Math.max(0, Math.ceil(-Math.log10(ticks[1] - ticks[0]) - 1e-9));
    for (const tick of ticks) {
      image.append(
        svg("line", { class: "x-grid", x1: plot.left, x2: plot.right, y1: y(tick), y2: y(tick) }),
        svg("text", { x: plot.left - 8, y: y(tick) + 4, "text-anchor": "end" }, number(tick, digits)),
      );
    }
    const every = Math.ceil((n * 22) / (plot.right - plot.left));
    for (let at = 0; at < n; at += every) {
      image.append(svg("text", { x: x(at), y: plot.bottom + 18, "text-anchor": "middle" }, at));
    }
    const axis = about.n_encoder_layers
      ? `layer (decoder from ${about.n_encoder_layers})`
      : "layer";
    image.append(
      svg("text", { x: (plot.left + plot.right) / 2, y: height - 4, "text-anchor": "middle" }, axis),
      svg("line", { class: "x-flat", x1: plot.left, x2: plot.right, y1: y(values.flat), y2: y(values.flat) }),
    );
    const size = n > 16 ? 0.6 : 1;
    for (const [name, each] of lines) {
      const points = each.flatMap((value, at) => (value === null ? [] : [`${x(at)},${y(value)}`]));
      const style = `x-${name.replace(" ", "-")}`;
      image.append(svg("polyline", { class: `x-line ${style}`, points: points.join(" ") }));
      each.forEach((value, at) => {
        if (value === null) return;
        const mark = svg("path", {
          class: `x-mark ${style}`,
          d: (MARKS[name] ?? MARKS.mean)(0, 0),
          transform: `translate(${x(at)} ${y(value)}) scale(${size})`,
        });
        mark.append(svg("title", {}, `${name}, layer ${at}: ${number(value, 3)}`));
        mark.onclick = () => this.pick(at, name);
        image.append(mark);
      });
    }
    const value = curve.get(transplant ? "transplant" : how)?.[layer];
    if (value !== null && value !== undefined) {
      image.append(svg("circle", { class: "x-chosen", cx: x(layer), cy: y(value), r: 10 }));
    }
    const ends = lines.flatMap(([name, each]) => {
      const last = each.reduce((found, one, at) => (one === null ? found : at), -1);
      return last < 0 ? [] : [[name, y(each[last])]];
    });
    ends.push([alone, y(values.flat)]);
    for (const [name, at] of apart(ends, 15, plot)) {
      const style = `x-name x-${name.replaceAll(" ", "-")}`;
      image.append(svg("text", { class: style, x: plot.right + 8, y: at + 4 }, name));
    }
    this.part("curve").replaceChildren(image);
  }

  pick(layer, how) {
    this.change(this.about.poolings.includes(how) ? { layer, how } : { layer });
  }
}

/** Whether what is behind an element is dark. */
function isDark(from) {
  for (let at = from; at; at = at.parentElement ?? at.getRootNode().host) {
    const [r, g, b, a = 1] = (getComputedStyle(at).backgroundColor.match(/[\d.]+/g) ?? []).map(Number);
    if (a > 0 && r !== undefined) return 0.299 * r + 0.587 * g + 0.114 * b < 128;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Blanks at the edges of a token are seen. */
function visible(text) {
  return lines(text).replace(/^\s+|\s+$/g, (blanks) => "␣".repeat(blanks.length)) || "(empty)";
}

function lines(text) {
  return text.replaceAll("\n", NEW_LINE);
}

/** Several lines that are pasted, or dropped (behind the text), which a field of one would join. */
function brought(event) {
  const from = event.clipboardData ?? event.dataTransfer;
  const text = from.getData("text").replaceAll(/\r\n?/g, "\n");
  if (!text.includes("\n")) return;
  event.preventDefault();
  const field = event.target;
  const end = field.value.length;
  const place = event.type === "drop" ? [end, end] : [field.selectionStart, field.selectionEnd];
  field.setRangeText(lines(text), ...place, "end");
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
}

/** With a true minus, and none before a zero. */
function number(x, digits) {
  const text = Math.abs(x).toFixed(digits);
  return (x < 0 && Number(text) ? "−" : "") + text;
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

/** Ticks from below the lowest value to at least the highest, three to seven of them. */
function scale(lowest, highest) {
  const range = Math.max(highest - lowest, 1e-3);
  const power = 10 ** Math.floor(Math.log10(range / 5));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => range / each <= 5);
  const first = Math.min(Math.floor(lowest / step + 1e-9), Math.ceil(highest / step) - 2);
  const last = Math.ceil(highest / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
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
  shuffled: polygon([-5, -2], [-2, -2], [-2, -5], [2, -5], [2, -2], [5, -2], [5, 2], [2, 2], [2, 5], [-2, 5], [-2, 2], [-5, 2]),
  own: polygon([-4.5, -4.5], [4.5, -4.5], [4.5, 4.5], [-4.5, 4.5]),
  "random direction": polygon([0, 6], [6, -5], [-6, -5]),
};
