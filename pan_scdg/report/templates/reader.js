// What is open: a pair or a query, in two panes, the passage that is chosen in both, and the level of colour.

let opened = null;

class Reader {
  /** @param {Element} section - has the passages as rows and, if there are any, as data. */
  constructor(section) {
    this.section = section;
    this.id = section.id;
    this.data = JSON.parse(find("script.data", section)?.textContent ?? '{"texts":[],"passages":[]}');
    this.chosen = 0;
    this.excluded = new Set();
    this.uncounted = new Set(this.data.uncounted);
    this.panes = [];
    this.gains = null;
  }

  open() {
    this.section.classList.add("open");
    const slot = find(".slot", this.section);
    if (!slot) return;
    slot.replaceChildren(find("#reader").content.cloneNode(true));
    find(".rank", slot).textContent = this.section.id.replace("-", " ");
    this.panes = findAll(".pane", slot).map((element, side) => this.makePane(element, side));
    slot.addEventListener("click", (event) => {
      const { step, nextStep } = event.target.closest("button")?.dataset ?? {};
      if (step) this.step(Number(step));
      if (nextStep) openNext(Number(nextStep));
    });
    this.describe();
  }

  close() {
    this.gains?.close();
    find(".slot", this.section)?.replaceChildren();
    for (const element of findAll(".chosen", this.section)) element.classList.remove("chosen");
    this.section.classList.remove("open");
  }

  makePane(element, side) {
    const spans = this.data.passages.map((places) => places.slice(2 * side, 2 * side + 2));
    const equal = (this.data.equal ?? []).map((sides) => sides[side]);
    return new Pane(element, this.data.texts[side], spans, equal);
  }

  findStyle(number) {
    return this.uncounted.has(number) ? "out" : "c0";
  }

  findLabel(number) {
    return number;
  }

  listNumbers() {
    return this.data.passages.map((_, i) => i + 1).filter((number) => !this.excluded.has(number));
  }

  step(by) {
    const numbers = this.listNumbers();
    if (!numbers.length) return;
    const at = this.chosen ? numbers.indexOf(this.chosen) + by : by > 0 ? 0 : numbers.length - 1;
    this.select(numbers[(at + numbers.length) % numbers.length]);
  }

  /** Choose a passage and scroll both sides to it; the other side comes to the height of the one that was clicked. */
  select(number, clicked = null) {
    this.choose(number);
    let top = 60;
    if (clicked) {
      const pane = clicked.closest(".pane");
      const box = clicked.getClientRects()[0];
      top = Math.max(40, box.top - pane.getBoundingClientRect().top);
    }
    for (const pane of this.panes)
      if (!clicked || !pane.element.contains(clicked)) pane.scrollTo(pane.passages[number - 1][0], top);
  }

  choose(number) {
    this.chosen = number;
    for (const pane of this.panes) pane.choose(number);
    for (const element of findAll("[data-number]", this.section))
      if (element.matches("tbody, .band")) element.classList.toggle("chosen", Number(element.dataset.number) === number);
    this.describe();
  }

  describe() {
    if (!this.panes.length) return;
    const numbers = this.listNumbers();
    const left = this.excluded.size ? `, ${this.excluded.size} left out` : "";
    const place = this.chosen ? `passage ${this.chosen} of ${this.data.passages.length}` : `${numbers.length} passages`;
    find(".place", this.section).textContent = place + left;
    const row = this.chosen ? find(`#${this.section.id}-${this.chosen} .about td`).cloneNode(true) : null;
    for (const element of row ? findAll(".dismissal", row) : []) element.remove();
    const about = row?.childNodes ?? [];
    const hint = numbers.length ? "Choose a passage to see both of its sides." : "No passage to show.";
    find(".explanation", this.section).replaceChildren(...(this.chosen ? about : [hint]));
  }

  /** Make the levels of colour work if gains were kept. */
  startGains(slot) {
    find(".levels", slot).hidden = !this.data.gains;
    if (!this.data.gains) return;
    this.gains = new Gains(this.data, this.panes[0]);
    this.listenForLevels(slot);
  }

  listenForLevels(slot) {
    slot.addEventListener("change", (event) => {
      if (event.target.name === "level") this.showLevel(event.target.value);
    });
    const [pane] = this.panes;
    pane.element.addEventListener("pointermove", (event) => this.point(event));
    pane.element.addEventListener("pointerleave", () => hideTooltip());
    pane.element.addEventListener("scroll", () => hideTooltip());
    pane.element.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || !this.gains || this.gains.level === "passage") return;
      event.preventDefault();
      this.read(this.gains.step(by));
    });
  }

  showLevel(level) {
    if (!this.panes.length || (level !== "passage" && !this.gains)) return;
    find(`[name=level][value=${level}]`, this.section).checked = true;
    fillLegend(find(".legend", this.section), level);
    this.gains?.show(level);
    this.read(null);
  }

  /** Say the gain of a token or sentence. */
  read(unit) {
    find(".readout", this.section).textContent = unit ? this.describeUnit(unit) : "";
  }

  describeUnit(unit) {
    const value = `${unit.gain < 0 ? "−" : "+"}${Math.abs(unit.gain).toFixed(2)} nats`;
    if (unit.tokens > 1 || this.gains.level === "sentence") return `${value} per token, mean of ${unit.tokens} tokens`;
    const block = this.panes[0].findBlock(unit.begin);
    return `“${block.text.slice(unit.begin - block.begin, unit.end - block.begin).trim()}” ${value}`;
  }

  point(event) {
    if (!this.gains || this.gains.level === "passage") return;
    const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    const old = caret ? null : document.caretRangeFromPoint?.(event.clientX, event.clientY);
    const node = caret?.offsetNode ?? old?.startContainer;
    const unit = node && event.target.closest("p")
      ? this.gains.find(this.panes[0].findPlace(node, caret?.offset ?? old.startOffset)) : null;
    if (unit) showTooltip(this.describeUnit(unit), event.clientX, event.clientY);
    else if (event.target.closest("p")) showTooltip("not measured", event.clientX, event.clientY);
    else hideTooltip();
  }
}

function showTooltip(text, x, y) {
  let tooltip = find(".tooltip");
  if (!tooltip) {
    tooltip = makeElement("div", "tooltip");
    document.body.append(tooltip);
  }
  tooltip.textContent = text;
  tooltip.style.left = `${Math.min(x + 12, innerWidth - 220)}px`;
  tooltip.style.top = `${y + 18}px`;
}

function hideTooltip() {
  find(".tooltip")?.remove();
}
