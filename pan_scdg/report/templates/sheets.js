// On paper: a sheet for each text that the overview shows, with its sources, the whole text, and what it has from them.

class Sheet {
  /** @param {Element} row - of the text in the table. */
  constructor(row) {
    this.row = row;
    this.id = `sheet-${row.dataset.rank}`;
    this.signs = listSigns(row).filter(({ number }) => state.reviews[number] !== "dismissed");
    this.passages = this.signs.flatMap((sign) => this.listKept(sign));
    this.uncounted = new Set(this.passages.flatMap(({ counts }, i) => (counts ? [] : [i + 1])));
  }

  /** The passages of a pair that are not left out, with their places in this text. */
  listKept({ number, side, row }) {
    const data = find(`#pair-${number} script.data`);
    if (!data) return [];
    const { passages, equal, uncounted } = JSON.parse(data.textContent);
    const excluded = listPassages(row).map((passage) => passage.excluded);
    return passages.map((places, i) => ({
      pair: number, side, anchor: `#pair-${number}-${i + 1}`, span: places.slice(2 * side, 2 * side + 2),
      equal: equal[i][side], counts: !uncounted.includes(i + 1),
    })).filter((_, i) => !excluded[i]);
  }

  findStyle(number) {
    return this.uncounted.has(number) ? "out" : "c0";
  }

  findLabel(number) {
    return number;
  }

  make() {
    const section = makeElement("section", "sheet");
    const [score, sources] = ["score", "sources"].map((key) => find(`.texts [data-key=${key}]`).textContent.toLowerCase());
    const facts = [find("#day").textContent, `${score} ${find(".score", this.row).textContent}`,
      `share ${find(".share", this.row).textContent}`];
    const result = makeElement("p", "result", find(".decision", this.row).cloneNode(true));
    result.append(...facts.map((fact) => makeElement("span", "", fact)));
    section.append(makeElement("h2", "", find("bdi", this.row).cloneNode(true)), result, find(".caution").cloneNode(true));
    if (this.signs.length) section.append(this.makeSources());
    const number = find("bdi", this.row).dataset.text;
    if (find(`#text-${number}`)) {
      const holder = makeElement("div", "");
      const spans = this.passages.map(({ span }) => span), equal = this.passages.map((passage) => passage.equal);
      new Pane(holder, number, spans, equal, this).mark(new Set());
      section.append(find(".text", holder));
    }
    if (this.passages.length) section.append(makeElement("h3", "", `Passages in the ${sources}`), this.makePassages());
    return section;
  }

  makeSources() {
    const list = makeElement("ul", "sources");
    for (const sign of this.signs) {
      const numbers = this.passages.flatMap(({ pair }, i) => (pair === sign.number ? [i + 1] : []));
      const share = formatShare(measureSigns([sign], this.row.dataset.length));
      const item = makeElement("li", "", nameOther(sign), ": ", find(".decision", sign.row).cloneNode(true),
        `, ${find(".score", sign.row).textContent}, share ${share}`);
      if (numbers.length) item.append(`, ${numbers.length > 1 ? "passages" : "passage"} ${numbers.join(", ")}`);
      if (state.reviews[sign.number]) item.append(`, ${state.reviews[sign.number]}`);
      for (const warning of findAll(`#pair-${sign.number} .warnings li`)) item.append(makeElement("div", "note", ...warning.cloneNode(true).childNodes));
      list.append(item);
    }
    return list;
  }

  /** The rows of the passages, of which the other side is kept. */
  makePassages() {
    const table = makeElement("table", "rows");
    for (const [i, { anchor, side, pair }] of this.passages.entries()) {
      const body = find(anchor).cloneNode(true);
      body.id = `${this.id}-${i + 1}`;
      find("a.number", body).textContent = i + 1;
      find(".about td", body).prepend(nameOther({ row: rowsByNumber.get(pair), side }), ": ");
      const sides = findAll(".sides td[dir]", body);
      sides[side].remove();
      sides[1 - side].colSpan = 2;
      table.append(body);
    }
    return table;
  }
}

const nameOther = ({ row, side }) => find(side ? ".suspicious bdi" : ".source bdi", row).cloneNode(true);

/** Make the sheets of the texts that are shown, but none of a text whose pairs are all dismissed. If a name is looked for, the
 * texts with that name are printed alone. */
function makeSheets() {
  if (opened) return; // that pair alone is printed
  const name = readName();
  const rows = listTexts().filter((row) => !row.hidden && hasName(find("bdi", row), name));
  const sheets = rows.map((row) => new Sheet(row)).filter(({ signs, row }) => signs.length || !row.dataset.pairs);
  find("main").append(...sheets.map((sheet) => sheet.make()));
  document.body.classList.toggle("alone", Boolean(name && sheets.length));
}

function removeSheets() {
  for (const sheet of findAll(".sheet")) sheet.remove();
  document.body.classList.remove("alone");
}
