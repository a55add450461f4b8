// What the pages say of people, groups, programs and sessions.

import { words } from "../../lib/words.js";

export const say = words({
  email: { en: "E-mail", ja: "メール" },
  groups: { en: "Groups", ja: "グループ" },
  last_seen: { en: "Last seen", ja: "最終利用" },
  search_words: { en: "Part of a name, e-mail address or subject", ja: "名前・メール・サブジェクトの一部" },
  issuer: { en: "Provider", ja: "IDプロバイダー" },
  subject: { en: "Subject there", ja: "サブジェクト" },
  subject_hint: {
    en: "What the provider calls this person (sub). It cannot be changed later.",
    ja: "IDプロバイダーでの識別子（sub）。後から変更できません。",
  },
  new_user: { en: "New user", ja: "ユーザーを作成" },
  new_user_says: {
    en: "Before the first sign-in, so that the right role and limits wait for them.",
    ja: "最初のサインインの前に作成し、役割や上限をあらかじめ設定できます。",
  },
  new_user_done: { en: "The user {name} was made.", ja: "ユーザー {name} を作成しました。" },
  left_to_sign_in: { en: "Left empty: as sign-in decides.", ja: "空欄の場合はサインインで決定。" },
  who: { en: "Who", ja: "利用者" },
  since: { en: "Since", ja: "開始" },
  why: { en: "Why", ja: "理由" },
  decided: { en: "What sign-in decided last", ja: "直近のサインインでの決定" },
  decided_words: {
    en: "{role}, tenant {tenant}, groups: {groups}",
    ja: "{role}、テナント {tenant}、グループ：{groups}",
  },
  applies: { en: "Limits that apply", ja: "適用される上限" },
  rights: { en: "Role, tenant, groups", ja: "役割・テナント・グループ" },
  rights_title: { en: "Change what {name} may do", ja: "{name} の権限を変更" },
  rights_says: {
    en: "What is set here goes before what sign-in decides. What is left empty is decided by sign-in.",
    ja: "ここで設定した値は、サインイン時の決定より優先されます。空欄にするとサインイン時の決定に戻ります。",
  },
  by_sign_in: { en: "(as sign-in decides)", ja: "（サインインで決定）" },
  groups_set: {
    en: "Groups are set here, not by sign-in",
    ja: "グループをここで設定する（サインインの決定を使わない）",
  },
  rights_done: {
    en: "{name} is {role} in the tenant {tenant} now.",
    ja: "{name}：{role}、テナント {tenant} に変更しました。",
  },
  disable: { en: "Disable", ja: "無効にする" },
  enable: { en: "Enable", ja: "有効にする" },
  disable_says: {
    en: "{name} gets in no more, with no key and no session, everywhere within a second.",
    ja: "{name} は1秒以内に、キーでもセッションでも利用できなくなります。",
  },
  enable_says: { en: "{name} gets in again, with the keys of before.", ja: "{name} は以前のキーで再び利用できます。" },
  disable_done: { en: "{name} is disabled.", ja: "{name} を無効にしました。" },
  enable_done: { en: "{name} is enabled.", ja: "{name} を有効にしました。" },
  delete_user_says: {
    en: "{name} is deleted with all keys, sessions and conversations. Whoever may still sign in comes back as a new user: to keep somebody out, disable. This cannot be undone.",
    ja: "{name} を、キー・セッション・会話とともに削除します。サインインできる人は新しいユーザーとして戻るため、締め出すには無効にしてください。元に戻せません。",
  },
  deleted: { en: "{name} was deleted.", ja: "{name} を削除しました。" },
  sessions: { en: "Where signed in", ja: "サインイン中のブラウザー" },
  agent: { en: "Browser", ja: "ブラウザー" },
  address: { en: "Address", ja: "アドレス" },
  seen: { en: "Last used", ja: "最終利用" },
  ends: { en: "Ends at the latest", ja: "期限" },
  end_session: { en: "Sign out here", ja: "サインアウト" },
  end_session_says: {
    en: "This session of {name} ends, everywhere within a second.",
    ja: "{name} のこのセッションを1秒以内に終了します。",
  },
  end_session_done: { en: "A session of {name} was ended.", ja: "{name} のセッションを終了しました。" },
  sign_out: { en: "Sign out everywhere", ja: "すべてサインアウト" },
  sign_out_says: {
    en: "All sessions of {name} end. Keys go on.",
    ja: "{name} のセッションをすべて終了します。キーはそのままです。",
  },
  sign_out_done: { en: "{count} {count|session|sessions} of {name} {count|was|were} ended.", ja: "{name} のセッション {count}件を終了しました。" },

  new_group: { en: "New group", ja: "グループを作成" },
  group_name: { en: "Name, as the provider spells it", ja: "名前（IDプロバイダーの表記どおり）" },
  group_says: {
    en: "Whoever is in this group gets this role and tenant at the next request.",
    ja: "このグループの人は、次のリクエストからこの役割とテナントになります。",
  },
  gives_none: { en: "(none)", ja: "（なし）" },
  gives_role: { en: "Role that it gives", ja: "与える役割" },
  gives_tenant: { en: "Tenant that it gives", ja: "与えるテナント" },
  group_done: { en: "The group {name} was saved.", ja: "グループ {name} を保存しました。" },
  change_named: { en: "Change {name}", ja: "{name} を変更" },
  delete_named: { en: "Delete {name}", ja: "{name} を削除" },
  delete_group_says: {
    en: "Belonging to {name} gives no role and no tenant any more.",
    ja: "{name} に属していても、役割やテナントは与えられなくなります。",
  },

  new_account: { en: "New service account", ja: "サービスアカウントを作成" },
  account_says: {
    en: "A program that uses the gateway, with keys of its own.",
    ja: "独自のキーでゲートウェイを使うプログラムです。",
  },
  account_id: { en: "Id", ja: "ID" },
  account_id_hint: { en: "Left empty it is made of the name.", ja: "空欄の場合は名前から作ります。" },
  account_done: { en: "The service account {name} was saved.", ja: "サービスアカウント {name} を保存しました。" },
  delete_account_says: {
    en: "{name} is deleted with all its keys. This cannot be undone.",
    ja: "{name} を、すべてのキーとともに削除します。元に戻せません。",
  },
  created_by: { en: "Made by", ja: "作成者" },
  keys: { en: "Keys", ja: "キー" },
});
