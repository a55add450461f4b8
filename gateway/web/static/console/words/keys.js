// What the page of keys says.

import { words } from "../../lib/words.js";

export const say = words({
  keys: { en: "API keys", ja: "APIキー" },
  owner: { en: "Owner", ja: "所有者" },
  owner_hint: { en: "user:ID or service_account:ID", ja: "user:ID または service_account:ID" },
  endpoints: { en: "Endpoints", ja: "エンドポイント" },
  endpoints_usual: { en: "all but admin and metrics", ja: "admin と metrics 以外" },
  endpoints_own: { en: "Limited to certain endpoints", ja: "エンドポイントを限定する" },
  endpoints_hint: { en: "Such as {some}.", ja: "例：{some}" },
  models: { en: "Models", ja: "モデル" },
  models_hint: { en: "Left empty: every model.", ja: "空欄の場合はすべてのモデル。" },
  expires: { en: "Expires", ja: "有効期限" },
  expires_hint: { en: "Left empty: never.", ja: "空欄の場合は無期限。" },
  last_used: { en: "Last used", ja: "最終利用" },
  created_by: { en: "Made by", ja: "作成者" },
  allowed_ips: { en: "Addresses from which it opens", ja: "許可するアドレス" },
  allowed_ips_hint: {
    en: "Such as 10.0.0.0/8; left empty: from anywhere.",
    ja: "例：10.0.0.0/8。空欄の場合は制限なし。",
  },
  queue_class: { en: "Class in the queue", ja: "待ち行列のクラス" },
  by_default: { en: "(by what the owner is)", ja: "（所有者による）" },
  on_behalf_of: { en: "May name people on whose behalf it asks", ja: "代理する利用者を指定できる" },
  forwards_users: { en: "Forwards people's names (Open WebUI)", ja: "利用者名を転送する（Open WebUI）" },
  previous_until: { en: "The old secret opens until {at}", ja: "旧シークレットは {at} まで有効" },
  expired: { en: "expired", ja: "期限切れ" },
  new_key: { en: "New key", ja: "キーを作成" },
  new_says: {
    en: "A key is made. It is shown once, right after, and never again.",
    ja: "キーを作成します。キーは作成直後に一度だけ表示されます。",
  },
  made: { en: "The key {name} of {owner} was made.", ja: "{owner} のキー {name} を作成しました。" },
  once: {
    en: "Copy this key now: it is shown this once.",
    ja: "今すぐコピーしてください。このキーは二度と表示されません。",
  },
  the_key: { en: "key", ja: "キー" },
  kept: { en: "I have it", ja: "保存しました" },
  change_title: { en: "Change the key {name}", ja: "キー {name} を変更" },
  change_says: {
    en: "It counts within a second. The key itself stays the same.",
    ja: "1秒以内に反映されます。キー自体は変わりません。",
  },
  changed: { en: "The key {name} was changed.", ja: "キー {name} を変更しました。" },
  rotate: { en: "Rotate", ja: "ローテーション" },
  rotate_title: { en: "A new secret for {name}", ja: "{name} のシークレットを更新" },
  rotate_says: {
    en: "A new secret under the same id, shown once. The old one opens for the time that you allow. This cannot be undone.",
    ja: "同じIDで新しいシークレットを発行し、一度だけ表示します。旧シークレットは指定した時間だけ有効です。元に戻せません。",
  },
  overlap: { en: "Seconds that the old one still opens", ja: "旧シークレットを有効にしておく秒数" },
  overlap_hint: { en: "0 if it got into wrong hands.", ja: "漏えいした場合は 0。" },
  rotated: { en: "The key {name} has a new secret.", ja: "キー {name} のシークレットを更新しました。" },
  revoke: { en: "Revoke", ja: "失効" },
  revoke_title: { en: "Revoke the key {name}", ja: "キー {name} を失効" },
  revoke_says: {
    en: "The key {name} of {owner} opens nothing any more, everywhere within a second. This cannot be undone.",
    ja: "{owner} のキー {name} は1秒以内に使えなくなります。元に戻せません。",
  },
  revoked: { en: "The key {name} of {owner} was revoked.", ja: "{owner} のキー {name} を失効しました。" },
});
