// What the page of one's own usage says.

import { words } from "../lib/words.js";

export const say = words({
  title: { en: "My usage", ja: "利用状況" },
  today: { en: "Today", ja: "今日" },
  month: { en: "This month", ja: "今月" },
  tokens: { en: "{count} {count|token|tokens}", ja: "{count} トークン" },
  requests: { en: "{count} {count|request|requests}", ja: "{count} リクエスト" },
  limits: { en: "Limits", ja: "上限" },
  no_limits: { en: "No limits are set for you.", ja: "上限は設定されていません。" },
  reached: { en: "reached", ja: "上限到達" },
  shared: { en: "shared with others", ja: "共有の上限" },
  models_of: { en: "for {models}", ja: "対象：{models}" },
  days: { en: "Tokens a day, this month", ja: "今月の1日あたりのトークン" },
  input: { en: "Input", ja: "入力" },
  output: { en: "Output", ja: "出力" },
  daily_limit: { en: "Limit per day", ja: "1日の上限" },
  as_table: { en: "The same as a table", ja: "表で見る" },
  day: { en: "Day", ja: "日" },
  requests_head: { en: "Requests", ja: "リクエスト" },
  utc: {
    en: "Days begin at 00:00 UTC. Use by your API keys is counted too.",
    ja: "日付は UTC の 0 時区切りです。自分の API キーでの利用も含みます。",
  },
  failed: {
    en: "Your usage cannot be shown now. Try again in a moment.",
    ja: "現在、利用状況を表示できません。しばらくしてからお試しください。",
  },
});
