// What the page of backends says.

import { words } from "../../lib/words.js";

export const say = words({
  use: { en: "Use", ja: "運用" },
  use_enabled: { en: "enabled", ja: "有効" },
  use_drained: { en: "drained", ja: "新規停止" },
  use_disabled: { en: "disabled", ja: "無効" },
  added: { en: "added here", ja: "ここで追加" },
  weight: { en: "Weight", ja: "重み" },
  weight_ordered: { en: "ordered here", ja: "ここで指定" },
  aliases: { en: "Names that people use", ja: "エイリアス" },
  stands_for: { en: "Stands for the model", ja: "対応するモデル" },
  end: { en: "End", ja: "廃止" },
  new_alias: { en: "New name for a model", ja: "エイリアスを作成" },
  alias_title: { en: "Point {name} to another model", ja: "{name} の対応先を変更" },
  alias_says: {
    en: "Whoever asks by this name gets this model, at every gateway within a second, whatever the settings say.",
    ja: "この名前でのリクエストは、1秒以内に全ゲートウェイでこのモデルが処理します。設定ファイルより優先されます。",
  },
  alias_done: { en: "{name} stands for {model} now.", ja: "{name} を {model} に対応させました。" },
  alias_end: { en: "End the name {name}", ja: "エイリアス {name} を廃止" },
  alias_end_says: {
    en: "Whoever asks for {name} is told that there is no such model, also where the settings name it.",
    ja: "{name} へのリクエストには、モデルが存在しないと応答します。設定ファイルにあっても同じです。",
  },
  alias_ended: { en: "{name} stands for nothing any more.", ja: "エイリアス {name} を廃止しました。" },
  enabled: { en: "Enable", ja: "有効化" },
  drained: { en: "Drain", ja: "新規停止" },
  disabled: { en: "Disable", ja: "無効化" },
  enabled_says: {
    en: "{name} takes requests again, from every gateway within a second.",
    ja: "{name} は1秒以内に全ゲートウェイからリクエストを受け付けます。",
  },
  drained_says: {
    en: "{name} takes nobody new, from any gateway within a second. What runs there finishes.",
    ja: "{name} は1秒以内に新規受付を停止します。実行中のものは最後まで続きます。",
  },
  disabled_says: {
    en: "{name} is asked for nothing any more, nor looked at. What runs there finishes.",
    ja: "{name} を使わず、監視もしません。実行中のものは最後まで続きます。",
  },
  use_done: { en: "{name} is {use} now.", ja: "{name} を「{use}」にしました。" },
  weight_title: { en: "Weigh {name}", ja: "{name} の重みを変更" },
  weight_says: {
    en: "An engine of weight 2 is given twice as much as one of weight 1.",
    ja: "重み 2 のエンジンには、重み 1 の2倍が割り当てられます。",
  },
  weight_hint: { en: "Left empty: as the settings say.", ja: "空欄の場合は設定の値。" },
  weight_done: { en: "{name} has the weight {weight} now.", ja: "{name} の重みは {weight} です。" },
  test: { en: "Test now", ja: "今すぐテスト" },
  test_title: { en: "Test {name}", ja: "{name} をテスト" },
  test_says: {
    en: "One short question goes straight to {name}, whatever is known of it. Nobody is charged.",
    ja: "{name} に短い質問を1つ直接送ります。誰にも課金されません。",
  },
  test_good: {
    en: "{backend} answered with {model} in {seconds}, its first words after {ttft}.",
    ja: "{backend}：{model} が {seconds} で応答（最初の語まで {ttft}）。",
  },
  test_bad: { en: "{backend} did not answer well: {error}", ja: "{backend} は正しく応答しませんでした：{error}" },
  remove: { en: "Remove", ja: "削除" },
  remove_title: { en: "Remove {name}", ja: "{name} を削除" },
  remove_says: {
    en: "{name} takes nobody new; what runs there may finish. Its key is forgotten.",
    ja: "{name} の新規受付を停止して削除します。実行中のものは最後まで続きます。キーは破棄されます。",
  },
  removed: { en: "{name} was removed.", ja: "{name} を削除しました。" },
  add: { en: "Add an engine", ja: "エンジンを追加" },
  add_says: {
    en: "An engine beside those of the settings, for every gateway within a second.",
    ja: "設定にあるエンジンに加えて、1秒以内に全ゲートウェイで使えるようになります。",
  },
  add_done: { en: "{name} was added.", ja: "{name} を追加しました。" },
  name_hint: { en: "Lower case letters, digits and -.", ja: "英小文字・数字・-" },
  kind: { en: "Kind", ja: "種類" },
  url: { en: "Address", ja: "アドレス" },
  url_hint: { en: "Such as http://gpu-1:8000", ja: "例：http://gpu-1:8000" },
  api_key: { en: "Key of the engine", ja: "エンジンのキー" },
  api_key_hint: {
    en: "Kept encrypted, never shown. Left empty: none.",
    ja: "暗号化して保存し、表示しません。空欄の場合はなし。",
  },
  max_concurrency: { en: "At once at most", ja: "同時実行の上限" },
  tier: { en: "Tier", ja: "ティア" },
  tier_hint: { en: "0 is asked first.", ja: "0 が最優先。" },
  external: { en: "It is outside of the house", ja: "社外のサービス" },
});
