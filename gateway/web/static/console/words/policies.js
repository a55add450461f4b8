// What the pages of policies say. Fields are those of the admin API's PolicyPut; one without words here has its name.

import { words } from "../../lib/words.js";

export const FIELDS = {
  description: { en: "Description", ja: "説明" },
  applies_to: { en: "Applies to", ja: "適用対象" },
  models: { en: "On the models", ja: "対象モデル" },
  each: { en: "Everyone has limits of their own", ja: "上限を各自に適用する" },
  shadow: { en: "In shadow: counted, not enforced", ja: "シャドー：計測のみで制限しない" },
  requests_per_minute: { en: "Requests a minute", ja: "リクエスト／分" },
  input_tokens_per_minute: { en: "Input tokens a minute", ja: "入力トークン／分" },
  output_tokens_per_minute: { en: "Output tokens a minute", ja: "出力トークン／分" },
  tokens_per_minute: { en: "Tokens a minute", ja: "トークン／分" },
  requests_per_day: { en: "Requests a day", ja: "リクエスト／日" },
  input_tokens_per_day: { en: "Input tokens a day", ja: "入力トークン／日" },
  output_tokens_per_day: { en: "Output tokens a day", ja: "出力トークン／日" },
  tokens_per_day: { en: "Tokens a day", ja: "トークン／日" },
  requests_per_month: { en: "Requests a month", ja: "リクエスト／月" },
  input_tokens_per_month: { en: "Input tokens a month", ja: "入力トークン／月" },
  output_tokens_per_month: { en: "Output tokens a month", ja: "出力トークン／月" },
  tokens_per_month: { en: "Tokens a month", ja: "トークン／月" },
  concurrent_requests: { en: "Requests at once", ja: "同時リクエスト" },
  cost_per_month: { en: "Cost a month", ja: "費用／月" },
  max_context_tokens: { en: "Longest prompt and answer (tokens)", ja: "入力と出力の合計の上限（トークン）" },
  max_output_tokens: { en: "Longest answer (tokens)", ja: "出力の上限（トークン）" },
  allowed_models: { en: "Only these models", ja: "利用できるモデル" },
  "weights.cached_input": { en: "A cached input token counts as", ja: "キャッシュ済み入力の重み" },
  "weights.output": { en: "An output token counts as", ja: "出力トークンの重み" },
};

export const say = words({
  new_policy: { en: "New policy", ja: "ポリシーを作成" },
  effective: { en: "What applies to somebody, and why", ja: "適用される上限とその理由" },
  applies_hint: {
    en: "everyone, user:ID, group:NAME, service_account:ID, key:ID, role:ROLE.",
    ja: "everyone、user:ID、group:名前、service_account:ID、key:ID、role:役割。",
  },
  models_hint: { en: "* stands for any letters.", ja: "* は任意の文字列です。" },
  allowed_hint: { en: "Left empty: no such limit.", ja: "空欄の場合は制限なし。" },
  limits: { en: "Limits", ja: "上限" },
  limits_words: { en: "{name}: {value}", ja: "{name}：{value}" },
  in_shadow: { en: "in shadow", ja: "シャドー" },
  policy_name: { en: "Name", ja: "名前" },
  name_hint: { en: "Lower case letters, digits and _ - .", ja: "英小文字・数字・_ - ." },
  save_title: { en: "Save the policy {name}", ja: "ポリシー {name} を保存" },
  save_says: { en: "It counts within a second, at every gateway:", ja: "1秒以内に全ゲートウェイで有効になります：" },
  save_same: { en: "Nothing of it changes.", ja: "変更はありません。" },
  saved: { en: "The policy {name} was saved.", ja: "ポリシー {name} を保存しました。" },
  delete_title: { en: "Delete the policy {name}", ja: "ポリシー {name} を削除" },
  delete_says: {
    en: "What {name} limited is limited by the other policies alone, within a second.",
    ja: "{name} の制限は1秒以内になくなり、他のポリシーだけが適用されます。",
  },
  deleted: { en: "The policy {name} was deleted.", ja: "ポリシー {name} を削除しました。" },

  user: { en: "a user (id)", ja: "ユーザー（ID）" },
  service_account: { en: "a service account (id)", ja: "サービスアカウント（ID）" },
  key: { en: "a key (id)", ja: "キー（ID）" },
  on_model: { en: "On the model", ja: "モデル" },
  effective_words: {
    en: "{subject} as {role}, in the groups: {groups}. All of these limits hold on {model}; the strictest decides.",
    ja: "{subject}（{role}、グループ：{groups}）。{model} では次の上限がすべて適用され、最も厳しいものが効きます。",
  },
  no_limits: { en: "No limit applies.", ja: "適用される上限はありません。" },
  ask_for: { en: "Say who and on which model.", ja: "対象とモデルを指定してください。" },
  limit: { en: "Limit", ja: "上限" },
  value: { en: "Value", ja: "値" },
  left: { en: "Left", ja: "残り" },
  resets: { en: "Whole again in", ja: "回復まで" },
  policy: { en: "Policy", ja: "ポリシー" },
  because: { en: "Because of", ja: "理由" },
  shared: { en: "Counted for", ja: "集計単位" },
});

export const fieldWords = words(FIELDS);
