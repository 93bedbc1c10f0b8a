"use strict";
(() => {
  const AT_ONCE = 50;
  const MOST_LINES = 12;
  const at = (name) => document.getElementById(`x-${name}`);
  const data = JSON.parse(at("data").textContent);
  let found = [];

  // as decimal() of text.py: three decimals, or two digits of what is smaller
  function signed(value) {
    const size = Math.abs(value);
    const digits = size < 1e-9 || size >= 0.005 ? 3 : 1 - Math.floor(Math.log10(size));
    return (size < 1e-9 ? 0 : value).toFixed(digits).replace("-", "−");
  }

  function element(tag, text, kind) {
    const made = document.createElement(tag);
    made.textContent = text ?? "";
    if (kind) made.className = kind;
    return made;
  }

  for (const one of data.rows) {
    one.text = `${one.parts.flat().join("")} ${one.facts}`.toLowerCase();
  }

  function lost(one) {
    const layer = at("layer").selectedIndex;
    const line = at("line").value;
    const of = one.values.map((values, i) => [one.clean - values[layer], one.lines[i]]);
    const asked = of.filter((each) => line === "" || each[1] === line);
    return asked.reduce((most, each) => (each[0] > most[0] ? each : most), [-Infinity, ""]);
  }

  function parts(one) {
    return one.parts.map((part) => {
      if (typeof part === "string") return element("span", part);
      const unit = element("span", "", "unit");
      unit.append(...part.map((token) => element("span", token)));
      return unit;
    });
  }

  function table(one) {
    const made = element("table");
    const head = made.createTHead().insertRow();
    head.append(...["", ...data.layers.map((layer) => `layer ${layer}`)].map((text) => element("th", text)));
    const body = made.createTBody();
    one.lines.forEach((line, i) => {
      const row = body.insertRow();
      row.append(element("td", line));
      one.values[i].forEach((value, j) => {
        const place = one.predictions?.[i][j];
        const right = place < 0;
        const said = place === undefined ? "" : `“${data.texts[right ? ~place : place]}” `;
        row.append(element("td", said + (said ? `(${signed(value)})` : signed(value)), right ? "right" : ""));
      });
    });
    return made;
  }

  function more() {
    const shown = at("list").childElementCount;
    for (const [one, [loss, line]] of found.slice(shown, shown + AT_ONCE)) {
      const details = element("details");
      const summary = element("summary");
      summary.append(element("span", Number.isFinite(loss) ? signed(loss) : "–", "loss"), ...parts(one));
      const told = [one.answers, one.lines.length > 1 && `most lost: ${line}`].filter(Boolean);
      summary.append(element("span", told.map((text) => ` · ${text}`).join(""), "note"));
      details.append(summary);
      details.addEventListener("toggle", () => {
        if (details.childElementCount > 1) return;
        const scroll = element("div", "", "scroll");
        scroll.append(table(one));
        details.append(element("p", `Example ${one.number}: ${one.facts}; ${data.cells}.`, "note"), scroll);
      });
      at("list").append(details);
    }
    at("more").hidden = at("list").childElementCount === found.length;
  }

  function list() {
    const words = at("words").value.toLowerCase();
    const sign = { most: -1, least: 1 }[at("order").value];
    found = data.rows.filter((one) => one.text.includes(words)).map((one) => [one, lost(one)]);
    found.sort((a, b) => (sign ? sign * (a[1][0] - b[1][0]) || 0 : 0) || a[0].number - b[0].number);
    at("count").textContent = `${found.length} of ${data.rows.length} examples; each opens to its numbers by layer.`;
    at("list").replaceChildren();
    more();
  }

  at("layer").append(...data.layers.map((layer) => new Option(layer, layer)));
  const lines = [...new Set(data.rows.flatMap((one) => one.lines))];
  at("line").append(new Option("whatever loses most", ""));
  if (lines.length > 1 && lines.length <= MOST_LINES) at("line").append(...lines.map((line) => new Option(line, line)));
  for (const name of ["layer", "line", "order"]) at(name).addEventListener("change", list);
  at("words").addEventListener("input", list);
  at("more").addEventListener("click", more);
  list();
})();
