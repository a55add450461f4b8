// Prompts that a team shares: taken into the field, written and deleted.

import { askJson } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { pictureButton } from "./buttons.js";
import { confirmed, dialog, form } from "./dialogs.js";
import { icon } from "./icons.js";
import { say } from "./words.js";

const ALL = "/chat/v1/templates";
const at = (name) => `${ALL}/${encodeURIComponent(name)}`;

/** Shows them; the text that was chosen, or undefined. */
export function chooseTemplate() {
  const list = h("ul", { class: "templates" });
  const add = h("button", { type: "button" }, icon("add"), say("template_new"));
  return dialog(
    say("templates"),
    (close) => {
      const show = async () => {
        const { data } = await askJson(ALL);
        fill(
          list,
          data.length ? data.map((one) => item(one, close, show)) : h("li", { class: "soft" }, say("templates_none")),
        );
      };
      add.addEventListener("click", async () => (await written({ name: "", text: "" })) && show());
      show();
      return list;
    },
    add,
  );
}

function item(template, close, show) {
  const { name, text, by, by_gone: gone } = template;
  const act = (words, picture, go) => pictureButton(words, picture, go, { "aria-label": `${say(words)}: ${name}` });
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", class: "plain use", onclick: () => close(text) },
      h("strong", {}, name),
      h("span", { class: "soft" }, text),
      h("small", { class: "soft by" }, say(gone ? "template_by_gone" : "template_by", { name: by })),
    ),
    ...(template.may_change
      ? [
          act("edit_template", "edit", async () => (await written(template)) && show()),
          act("remove", "remove", async () => (await dropped(name)) && show()),
        ]
      : []),
  );
}

async function written({ name, text, description = "" }) {
  const fields = [
    [
      say("template_name"),
      h("input", { value: name, required: true, maxLength: 100, pattern: "[^\\/]+", readOnly: Boolean(name) }),
    ],
    [say("template_text"), h("textarea", { value: text, required: true, rows: 8 })],
  ];
  const read = () => fields.map(([, field]) => field.value.trim());
  const wanted = await form(say(name ? "edit_template" : "template_new"), fields, read);
  if (wanted) await askJson(at(wanted[0]), { method: "PUT", json: { text: wanted[1], description } });
  return wanted;
}

async function dropped(title) {
  const sure = await confirmed(say("template_remove", { title }), say("no_way_back"), say("remove"));
  if (sure) await askJson(at(title), { method: "DELETE" });
  return sure;
}
