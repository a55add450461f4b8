"""What the pages say, in Japanese and English, and which of the two a reader wants. Plain data."""

from __future__ import annotations

from typing import Literal

Language = Literal["en", "ja"]

LANGUAGE_COOKIE = "sekisho-language"

WORDS: dict[str, dict[Language, str]] = {
    "tagline": {"en": "the door to your company's AI", "ja": "社内AIの入口"},
    "sign_in": {"en": "Sign in", "ja": "サインイン"},
    "sign_in_with": {"en": "Sign in with {name}", "ja": "{name} でサインイン"},
    "choose": {
        "en": "Sign in with your company account to see what you may use.",
        "ja": "会社のアカウントでサインインすると、利用できる内容を確認できます。",
    },
    "local_only": {
        "en": "No identity provider is set up. On this machine, run this and open the link that it prints:",
        "ja": "IDプロバイダーは未設定です。このマシンで次のコマンドを実行し、表示されるリンクを開いてください：",
    },
    "no_sign_in": {
        "en": "Signing in with a browser is not set up here. Programs use API keys; ask an administrator for one.",
        "ja": "ブラウザーでのサインインは設定されていません。APIキーは管理者に依頼してください。",
    },
    "signed_in_as": {"en": "You are signed in as {name}", "ja": "{name} さんとしてサインイン中です"},
    "role": {"en": "Role", "ja": "役割"},
    "why": {"en": "Why this role", "ja": "この役割の理由"},
    "tenant": {"en": "Tenant", "ja": "テナント"},
    "groups": {"en": "Groups", "ja": "グループ"},
    "none": {"en": "none", "ja": "なし"},
    "where": {"en": "Where you are signed in", "ja": "サインイン中のブラウザー"},
    "since": {"en": "since {begun}, last used {seen} (UTC)", "ja": "{begun} から、最終利用 {seen}（UTC）"},
    "this_browser": {"en": "this browser", "ja": "このブラウザー"},
    "back": {"en": "Back", "ja": "戻る"},
    "unknown_browser": {"en": "a browser that does not say its name", "ja": "名称不明のブラウザー"},
    "sign_out": {"en": "Sign out", "ja": "サインアウト"},
    "planner": {"en": "Planner", "ja": "容量計画"},
    "console": {"en": "Console", "ja": "管理コンソール"},
    "skip": {"en": "Skip to the content", "ja": "本文へ移動"},
    "no_script": {
        "en": "This page needs JavaScript, which this browser does not run. Programs use the API with a key.",
        "ja": "このページには JavaScript が必要です。プログラムからは API キーで API を利用できます。",
    },
    "chat": {"en": "Chat", "ja": "チャット"},
    "chat_greeting": {"en": "What can I help you with?", "ja": "何をお手伝いしましょうか？"},
    "chat_ask": {"en": "Ask anything", "ja": "メッセージを入力"},
    "chat_caution": {
        "en": "Answers can be wrong. Check what matters.",
        "ja": "回答には誤りが含まれることがあります。重要な内容は確認してください。",
    },
    "usage": {"en": "My usage", "ja": "利用状況"},
    "role_user": {"en": "user", "ja": "利用者"},
    "role_service": {"en": "service", "ja": "サービス"},
    "role_auditor": {"en": "auditor", "ja": "監査者"},
    "role_admin": {"en": "admin", "ja": "管理者"},
    "failed": {"en": "That did not work", "ja": "処理できませんでした"},
    "again": {"en": "Start again", "ja": "最初からやり直す"},
    "request_id": {"en": "Request", "ja": "リクエスト"},
    # By the code of an error. Where a code is missing here the error's own words are shown.
    "error_sign_in_expired": {
        "en": "This sign-in was not begun in this browser, took too long, or was used already. Start again here.",
        "ja": "このサインインは、別のブラウザーで開始されたか、期限切れか、使用済みです。やり直してください。",
    },
    "error_sign_in_refused": {
        "en": "The identity provider did not sign you in. Try again; if it stays so, show this to an administrator.",
        "ja": "IDプロバイダーに拒否されました。もう一度お試しください。続く場合は管理者にこの画面を見せてください。",
    },
    "error_sign_in_failed": {
        "en": "The identity provider's answer cannot be trusted. Try again; if it stays so, tell an administrator.",
        "ja": "IDプロバイダーの応答を確認できません。もう一度お試しください。続く場合は管理者に連絡してください。",
    },
    "error_link_expired": {
        "en": "This link was used already, or is older than ten minutes. Print a new one: ./sekisho sign-in",
        "ja": "このリンクは使用済みか、発行から10分を過ぎています。新しいリンクを発行してください：./sekisho sign-in",
    },
    "error_account_disabled": {
        "en": "Your account is disabled here. Ask an administrator.",
        "ja": "あなたのアカウントは無効になっています。管理者に問い合わせてください。",
    },
    "error_groups_overage": {
        "en": "You belong to more groups than your provider tells, so your role is not known. An administrator can "
        "mend this: app roles instead of groups, the claim limited to this application's groups, or groups set here.",
        "ja": "所属グループが多すぎて、IDプロバイダーから一覧が届きませんでした。役割を決められないため、"
        "管理者に対応を依頼してください（アプリロールの利用、クレームの対象グループの限定、またはここでのグループ設定）。",
    },
    "error_identity_provider_unavailable": {
        "en": "The identity provider cannot be reached. Try again in a moment.",
        "ja": "IDプロバイダーに接続できません。しばらくしてからもう一度お試しください。",
    },
    "error_store_unavailable": {
        "en": "The service is not available at the moment. Try again shortly.",
        "ja": "現在サービスを利用できません。しばらくしてからもう一度お試しください。",
    },
    "error_browsers_only": {
        "en": "This page is for people who signed in with a browser. Programs ask /admin/v1/whoami.",
        "ja": "このページはブラウザーでサインインした人のためのものです。プログラムは /admin/v1/whoami を使います。",
    },
    "error_foreign_origin": {
        "en": "A page of another site may not act in your name. Go to the first page and do it there.",
        "ja": "他のサイトからの操作は受け付けられません。最初のページから操作してください。",
    },
    "error_sign_in_not_set_up": {
        "en": "Signing in with a browser is not set up here. An administrator has to set public_url and issuers.",
        "ja": "ブラウザーでのサインインは設定されていません。管理者が public_url と issuers を設定する必要があります。",
    },
}


def said(word: str, language: Language, **values: str) -> str:
    return WORDS[word][language].format(**values)


def language_of(accept_language: bytes, cookies: bytes = b"") -> Language:
    """What was chosen on a page (static/lib/words.js sets the cookie); else the better liked of the two by
    Accept-Language; English where neither is."""
    for part in cookies.decode("latin-1").split(";")[:64]:
        name, _, value = part.strip().partition("=")
        if name == LANGUAGE_COOKIE and value in ("en", "ja"):
            return "ja" if value == "ja" else "en"
    weights: dict[str, float] = {}
    for part in accept_language.decode("latin-1").split(",")[:32]:
        tag, _, parameters = part.strip().lower().partition(";")
        weights.setdefault(tag.partition("-")[0], _weight(parameters))
    return "ja" if weights.get("ja", 0.0) > weights.get("en", 0.0) else "en"


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    try:
        return float(value) if name == "q" else 1.0
    except ValueError:
        return 0.0
