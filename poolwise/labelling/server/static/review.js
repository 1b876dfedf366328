// Decisions on the review page: sent at once, with a visible result.
"use strict";

const result = document.getElementById("review-said");

async function decide(card, answers, words) {
  card.setAttribute("aria-busy", "true");
  const wanted = answers.map(([item, label]) => ({ request: requestName(), item, kind: "correct", label }));
  try {
    const said = await call("/api/answers", { answers: wanted });
    const refused = Object.values(said.refused);
    if (refused.length) throw new Refused(422, refused[0]);
    card.classList.add("done");
    result.textContent = words;
    const next = card.nextElementSibling && card.nextElementSibling.querySelector("button");
    card.querySelector(".decide").replaceChildren(make("p", { class: "quiet", text: words }));
    if (next) next.focus();
  } catch (error) {
    result.textContent = `Not saved: ${error.message} Try again.`;
  } finally {
    card.removeAttribute("aria-busy");
  }
}

for (const card of document.querySelectorAll("[data-review]")) {
  const box = card.querySelector(".decide");
  for (const button of box.querySelectorAll("button")) {
    button.onclick = () => {
      const answers = [[box.dataset.item, button.dataset.label]];
      if (box.dataset.second) answers.push([box.dataset.second, button.dataset.labelSecond]);
      decide(card, answers, `Saved: ${[...new Set(answers.map(([, label]) => label))].join(", ")}.`);
    };
  }
  const choice = box.querySelector("select");
  if (choice) choice.onchange = () => choice.value && decide(card, [[box.dataset.item, choice.value]], `Saved: ${choice.value}.`);
}
