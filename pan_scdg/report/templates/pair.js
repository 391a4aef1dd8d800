// The open pair: its filters and the reader's mark.

class Pair extends Reader {
  constructor(section) {
    super(section);
    this.number = section.id.split("-")[1];
  }

  open() {
    super.open();
    const slot = find(".slot", this.section);
    const review = document.createElement("label");
    review.append("Your mark ", makeReview(this.number));
    find(".result", this.section).append(review);
    for (const body of findAll(".rows tbody", this.section))
      find(".about td", body).append(this.makeDismissal(Number(body.dataset.number)));
    this.applyFilters();
    this.startGains(slot);
  }

  close() {
    for (const element of findAll(".result label, .dismissal", this.section)) element.remove();
    super.close();
  }

  get row() {
    return rowsByNumber.get(this.number);
  }

  /** What a reader uses to dismiss a passage, here or wherever its texts have it. */
  makeDismissal(passage) {
    const box = document.createElement("input"), label = makeElement("label", "", box, " dismiss");
    const everywhere = makeElement("button", "", "dismiss in all pairs");
    box.type = "checkbox";
    everywhere.type = "button";
    box.addEventListener("change", () => this.dismiss(() => dismissPassage(this.row, passage, box.checked)));
    everywhere.addEventListener("click", () => this.dismiss(() => dismissShared(this.row, passage)));
    return makeElement("span", "dismissal with-script", label, " ", everywhere);
  }

  dismiss(change) {
    change();
    recount();
    this.applyFilters();
  }

  /** Mark passages, and hide the rows of those that are left out. */
  applyFilters() {
    const passages = listPassages(this.row);
    this.excluded = new Set(passages.flatMap((passage, i) => (passage.excluded ? [i + 1] : [])));
    for (const element of findAll("tbody[data-number], .band[data-number]", this.section)) {
      const number = Number(element.dataset.number), dismissed = isDismissed(this.number, number);
      const box = find(".dismissal input", element);
      if (box) box.checked = dismissed; // its row stays, to take it back
      element.classList.toggle("dismissed", dismissed);
      element.classList.toggle("excluded", this.excluded.has(number) && !(dismissed && box));
    }
    for (const pane of this.panes) pane.mark(this.excluded);
    this.gains?.repaint();
    if (this.excluded.has(this.chosen)) this.chosen = 0;
    this.choose(this.chosen);
  }
}
