// The open pair: two panes, the chosen passage, and the level of colour.

let openPair = null;

class Pair {
  constructor(number) {
    this.number = number;
    this.section = find(`#pair-${number}`);
    this.data = JSON.parse(find("script.data", this.section).textContent);
    this.chosen = 0;
  }

  open() {
    this.section.classList.add("open");
    const reader = find("#reader").content.cloneNode(true);
    const slot = find(".slot", this.section);
    slot.replaceChildren(reader);
    const review = document.createElement("label");
    review.append("Your mark ", makeReview(this.number));
    find(".result", this.section).append(review);
    find(".rank", slot).textContent = `pair ${this.number}`;
    const sides = this.data.passages.map(([a, b, c, d]) => [[a, b], [c, d]]);
    this.panes = findAll(".pane", slot).map((element, side) =>
      new Pane(element, this.data.texts[side], sides.map((passage) => passage[side])));
    this.gains = null;
    this.applyFilters();
    if (this.data.gains) this.gains = new Gains(this.data, this.panes[0]);
    else for (const input of findAll("[name=level]:not([value=passage])", slot)) {
      input.disabled = true;
      input.parentElement.title = "The gains of this pair's tokens were not measured";
    }
    this.listen(slot);
    this.describe();
  }

  close() {
    this.gains?.close();
    find(".slot", this.section).replaceChildren();
    find(".result label", this.section).remove();
    for (const element of findAll(".chosen", this.section)) element.classList.remove("chosen");
    this.section.classList.remove("open");
  }

  listen(slot) {
    slot.addEventListener("click", (event) => {
      const { step, pairStep } = event.target.closest("button")?.dataset ?? {};
      if (step) this.step(Number(step));
      if (pairStep) stepPair(Number(pairStep));
    });
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

  /** Mark passages, and hide the rows of those that are left out. */
  applyFilters() {
    const row = listRows().find((row) => row.dataset.number === String(this.number));
    const passages = listPassages(row);
    this.excluded = new Set(passages.flatMap((passage, i) => (passage.excluded ? [i + 1] : [])));
    for (const element of findAll("[data-number]", this.section))
      if (element.matches("tbody, .band")) element.classList.toggle("excluded", this.excluded.has(Number(element.dataset.number)));
    for (const pane of this.panes) pane.mark(this.excluded);
    this.gains?.repaint();
    if (this.excluded.has(this.chosen)) this.chosen = 0;
    this.choose(this.chosen);
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
    const numbers = this.listNumbers();
    const left = this.excluded.size ? `, ${this.excluded.size} left out` : "";
    const place = this.chosen ? `passage ${this.chosen} of ${this.data.passages.length}` : `${numbers.length} passages`;
    find(".place", this.section).textContent = place + left;
    const about = this.chosen ? find(`#pair-${this.number}-${this.chosen} .about td`, this.section).textContent : "";
    find(".explanation", this.section).textContent =
      about || (numbers.length ? "Choose a passage to see both of its sides." : "No passage to show.");
  }

  showLevel(level) {
    if (level !== "passage" && !this.gains) return;
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
    else hideTooltip();
  }
}

function showTooltip(text, x, y) {
  let tooltip = find(".tooltip");
  if (!tooltip) {
    tooltip = document.createElement("div");
    tooltip.className = "tooltip";
    document.body.append(tooltip);
  }
  tooltip.textContent = text;
  tooltip.style.left = `${Math.min(x + 12, innerWidth - 220)}px`;
  tooltip.style.top = `${y + 18}px`;
}

function hideTooltip() {
  find(".tooltip")?.remove();
}
