"""What the door itself says, in Japanese: the English sentence is the key, as with gettext. Knows no request.

For people at our pages. Programs, and whoever says no language, get the English one; what is not here stays English.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gateway.web.words import Language

_WORDS = {
    "user": "利用者",
    "service": "サービス",
    "auditor": "監査者",
    "admin": "管理者",
    "down": "停止",
    "failing": "エラー多発",
    "misconfigured": "設定不備",
    "requests_per_month": "1か月あたりのリクエスト",
    "tokens_per_month": "1か月あたりのトークン",
    "input_tokens_per_month": "1か月あたりの入力トークン",
    "output_tokens_per_month": "1か月あたりの出力トークン",
    "cost_per_month": "1か月あたりの費用",
    "group_roles in the settings": "設定の group_roles",
    "as an administrator has set it": "管理者の設定",
}

SENTENCES = {
    # Why somebody has a role and a tenant (identity/claims.py, identity/people.py, identity/administration/views.py).
    "operates this machine": "このマシンの運用者です",
    "no group gives a role, so it is user": "役割を与えるグループがないため、利用者です",
    "the group {group} gives the role {role} ({source})": "グループ {group} が役割「{role}」を与えています（{source}）",
    "the group {group} belongs to the tenant {tenant}": "グループ {group} はテナント {tenant} に属しています",
    "no group names a tenant, so it is the provider's: {tenant}": (
        "テナントを定めるグループがないため、IDプロバイダーのテナント {tenant} です"
    ),
    "the provider left the groups out, so nothing can be decided": (
        "IDプロバイダーからグループの一覧が届かなかったため、決定できません"
    ),
    "an admin has set the role {role}": "管理者が役割「{role}」を設定しました",
    "an admin has set the tenant {tenant}": "管理者がテナント {tenant} を設定しました",
    "an admin has set the groups {groups}": "管理者がグループ {groups} を設定しました",
    # How an engine is (routing/health.py, breaker.py, figures.py, shown.py, administration.py).
    "Its model is still loading.": "モデルを読み込み中です。",
    "It refuses our credential.": "ゲートウェイの認証情報を拒否しています。",
    "It refused our credential ({status}).": "ゲートウェイの認証情報を拒否しました（{status}）。",
    "It does not answer.": "応答がありません。",
    "It could not be reached.": "接続できませんでした。",
    "Nobody has looked at it yet.": "まだ確認していません。",
    "It asked us to wait ({status}).": "待つように求められました（{status}）。",
    "It says it is full ({status}).": "満杯と応答しました（{status}）。",
    "An administrator has drained it.": "管理者が新規受付を停止しました。",
    "An administrator has disabled it.": "管理者が無効にしました。",
    "A trial failed.": "試行が失敗しました。",
    "{count} requests in a row failed.": "{count}件連続で失敗しました。",
    "Half of the latest requests failed.": "直近のリクエストの半数が失敗しました。",
    "{count} requests in a row were answered with an error.": "{count}件連続でエラーを返しました。",
    "Its load figures cannot be read.": "負荷の数値を読み取れません。",
    "It says that nothing runs while it has {held} requests of ours.": (
        "何も実行していないと応答していますが、{held}件を処理中のはずです。"
    ),
    "It did not answer within {seconds} seconds.": "{seconds}秒以内に応答しませんでした。",
    "It lists no model.": "モデルの一覧が空です。",
    # What a policy would have refused (what_if.py, quotas/what_if.py).
    "Use is kept by the day: how much of it came within one minute is not known.": (
        "利用量は日単位で記録されるため、1分間の量は分かりません。"
    ),
    "Use is kept by the day: what ran at the same time is not known.": (
        "利用量は日単位で記録されるため、同時に実行された数は分かりません。"
    ),
    "Use is kept in sums: how long a single request was is not known.": (
        "利用量は合計で記録されるため、個々のリクエストの長さは分かりません。"
    ),
    "Use is kept in sums: how long a single answer was is not known.": (
        "利用量は合計で記録されるため、個々の回答の長さは分かりません。"
    ),
    "Refused requests are an estimate: the day's requests times the part of the day's use that is over, rounded up. "
    "It is exact where a limit counts requests, and for models that are not allowed.": (
        "拒否数は概算です（その日のリクエスト数 × 超過した割合、切り上げ）。"
        "リクエスト数の上限と、許可されていないモデルについては正確です。"
    ),
    "Each limit is replayed alone on what was used: what was refused on these days already is not in it.": (
        "各上限を単独で当てはめています。当時すでに拒否されたリクエストは含みません。"
    ),
    "Roles and groups are those of now, and costs are at the prices of now.": (
        "役割とグループは現在のもの、費用は現在の単価によります。"
    ),
    "Days are those of UTC; limits are counted by days of {zone}.": (
        "日付はUTCです。上限は {zone} の日付で数えられます。"
    ),
    # What needs attention (alerts.py).
    "Redis does not answer: requests are refused, or let in by local shares.": (
        "Redis が応答しません。リクエストは拒否されるか、ローカルの割当分だけ受け付けられています。"
    ),
    "See whether Valkey or Redis runs, has memory, and is a primary that can be written to.": (
        "Valkey または Redis が動作しているか、メモリーに空きがあるか、書き込めるプライマリーかを確認してください。"
    ),
    "No engine takes requests: nobody gets an answer.": "受付可能なエンジンがなく、誰も回答を得られません。",
    "See under Backends how each is and why; start one, or enable one again.": (
        "「バックエンド」で状態と理由を確認し、起動するか、有効に戻してください。"
    ),
    "{failed} requests of the last minute ended in a fault of the gateway or an engine ({share}).": (
        "直近1分で {failed}件が、ゲートウェイまたはエンジンの障害で失敗しました（{share}）。"
    ),
    "The errors of the last minute say what fails, and the gateway's log why.": (
        "直近1分のエラーで内容を、ゲートウェイのログで原因を確認してください。"
    ),
    "The backend {backend} takes no requests ({state}): {why}": (
        "バックエンド {backend} が受け付けていません（{state}）：{why}"
    ),
    "See whether its process runs and what its log says last; Test now tries it.": (
        "プロセスの動作とログの最後の行を確認してください。「今すぐテスト」で試せます。"
    ),
    "The queue turned away {refused} requests in the last minute.": (
        "直近1分で {refused}件が待ち行列に入れず断られました。"
    ),
    "More work comes than the engines do: add an engine, or lower what programs may send.": (
        "処理能力を超えています。エンジンを追加するか、プログラムの送信量を制限してください。"
    ),
    "Waiting in the line {line}: {waiting}, the last of them about {seconds} in all; the target is {target}.": (
        "待ち行列 {line} で {waiting}件が待機中、最長で約 {seconds} 待つ見込みです（目標 {target}）。"
    ),
    "See under Queue who fills it; move work that can wait to the class batch, or add an engine.": (
        "「待ち行列」で内訳を確認し、急がない作業をバッチへ移すか、エンジンを追加してください。"
    ),
    "{model}: one answer in twenty begins after {seconds} or later; the target is {target}.": (
        "{model}：20件に1件は最初のトークンまで {seconds} 以上かかっています（目標 {target}）。"
    ),
    "See whether the time goes into the queue or the engine; add capacity, or shed batch work.": (
        "待ち行列とエンジンのどちらで時間がかかっているかを確認し、増強するかバッチ作業を減らしてください。"
    ),
    "{model}: only {share} of the answers of the last minute were as promised.": (
        "{model}：直近1分で目標を満たした回答は {share} にとどまります。"
    ),
    "Late, slow or failed: each has another remedy; the figures by model say which it is.": (
        "開始の遅れ、速度の低下、失敗のどれかで対処が異なります。モデル別の数値で確認してください。"
    ),
    "{backend}: {share} of the KV cache is in use; the next long conversations preempt each other.": (
        "{backend}：KVキャッシュの {share} を使用中です。長い会話が増えるとプリエンプションが起こります。"
    ),
    "Let it run fewer at once (--max-num-seqs) or shorter ones (--max-model-len), or give it more memory.": (
        "同時実行数（--max-num-seqs）か最大長（--max-model-len）を減らすか、メモリーを増やしてください。"
    ),
    "{backend} put back {count} running requests in the last minute: their work is done twice.": (
        "{backend}：直近1分で実行中の {count}件が差し戻され、計算がやり直されました。"
    ),
    "More run at once than its KV cache holds: lower --max-num-seqs, or give it more memory.": (
        "KVキャッシュに収まる数を超えています。--max-num-seqs を減らすか、メモリーを増やしてください。"
    ),
    "The load figures of {backend} cannot be believed: {why}": "{backend} の負荷の数値は信頼できません：{why}",
    "See whether the engine's /metrics answers.": "エンジンの /metrics が応答するか確認してください。",
    "The identity provider {issuer} does not answer: nobody new can sign in.": (
        "IDプロバイダー {issuer} が応答せず、新たにサインインできません。"
    ),
    "Fetch its /.well-known/openid-configuration from the gateway's machine.": (
        "ゲートウェイのマシンから /.well-known/openid-configuration を取得できるか確認してください。"
    ),
    "Policy {policy}: {share} of {limit} is used by whoever used most of it.": (
        "ポリシー {policy}：「{limit}」の使用率が最大 {share} に達しています。"
    ),
    "See under Usage and cost who used what, and raise the limit if that is meant to be.": (
        "「利用量と費用」で内訳を確認し、妥当であれば上限を引き上げてください。"
    ),
    # Refusals that people at the pages meet.
    "The service cannot count requests at the moment. Try again shortly.": (
        "現在リクエストを数えられません。しばらくしてからもう一度お試しください。"
    ),
    "Something went wrong here. Tell an administrator the request id.": (
        "内部で問題が発生しました。リクエスト番号を管理者に伝えてください。"
    ),
    "This needs the role of {role}; yours is {own}.": "役割「{role}」が必要です（現在の役割：{own}）。",
    "This would take your own administrator's rights away. Ask another administrator, or use the command line.": (
        "自分自身の管理者権限がなくなるため、実行できません。他の管理者に依頼するか、コマンドラインを使ってください。"
    ),
    "There is a {kind} with the id {id} already.": "ID {id} の {kind} はすでに存在します。",
    "There is no {kind} with the id {id}.": "ID {id} の {kind} は存在しません。",
    "There is no alias {name}.": "エイリアス {name} は存在しません。",
    "model: {model} is an alias itself; expected the name of a model.": (
        "{model} 自体がエイリアスです。モデルの名前を指定してください。"
    ),
    "There is a model {name}: whoever asks for it is to get it.": (
        "{name} という名前のモデルがあるため、エイリアスにできません。"
    ),
    "There is no backend {name}.": "バックエンド {name} は存在しません。",
    "There is a backend {name} already.": "バックエンド {name} はすでに存在します。",
    "The backend {name} is named by the settings. Disable it here, or take it out there.": (
        "バックエンド {name} は設定ファイルにあります。ここで無効にするか、設定ファイルから外してください。"
    ),
    "The backend {name} is disabled. Enable it first.": "バックエンド {name} は無効です。先に有効にしてください。",
    "Somebody else keeps changing {id}. Look at it again and retry.": (
        "他の人が {id} を変更しています。最新の状態を確認してからやり直してください。"
    ),
    "Somebody else has just changed the policy {name}. Look at the difference again.": (
        "他の人がポリシー {name} を変更しました。差分を確認し直してください。"
    ),
    "No request {id} runs or waits.": "リクエスト {id} は実行中でも待機中でもありません。",
    "Request {id} has its turn: its class means nothing any more.": (
        "リクエスト {id} はすでに実行中のため、クラスは変更できません。"
    ),
    "No engine serves a model {model}.": "モデル {model} を提供するエンジンがありません。",
    "owner: there is no {owner}.": "所有者 {owner} は存在しません。",
    "expires: expected a time that is still to come, in Unix seconds.": "有効期限には未来の日時を指定してください。",
    "{name}: only a service account's key may name other people.": (
        "{name}：他の人の代理はサービスアカウントのキーだけに許可できます。"
    ),
    "from: {first} is after to, {last}.": "開始日 {first} が終了日 {last} より後です。",
    "from: at most {days} days can be asked for at once.": "一度に指定できるのは {days}日までです。",
    "So many used something on these days that they cannot be summed at once. Ask for fewer days.": (
        "この期間の利用者が多すぎて一度に集計できません。期間を短くしてください。"
    ),
    "You have no conversation {id}.": "会話 {id} は見つかりません。",
    "You have {count} conversations here, as many as are kept. Delete some.": (
        "会話が保存できる上限の {count}件に達しています。いくつか削除してください。"
    ),
    "This answer is still being written. Wait for its end, or stop it.": (
        "回答を作成中です。終わるまで待つか、停止してください。"
    ),
    "This answer is still being written. Stop it first.": "回答を作成中です。先に停止してください。",
    "There is no template {name}.": "テンプレート {name} は見つかりません。",
    "This template is {by}'s to change. Make one under another name.": (
        "このテンプレートは {by} だけが変更できます。別の名前で作成してください。"
    ),
}

# Names that others gave stand in sentences: what is longer is not looked through.
_LONGEST = 1000
# Values that are words themselves; all others are names and figures.
_SPOKEN = frozenset({"role", "own", "state", "why", "limit", "source"})


def told(sentence: str, language: Language) -> str:
    return _in_japanese(sentence) if language == "ja" else sentence


def placeholders(template: str) -> list[str]:
    return sorted(re.findall(r"{(\w+)}", template))


@lru_cache(maxsize=1024)
def _in_japanese(sentence: str) -> str:
    if (exact := SENTENCES.get(sentence)) is not None:
        return exact
    if len(sentence) > _LONGEST:
        return sentence
    for pattern, template in _OPEN:
        if found := pattern.fullmatch(sentence):
            values = found.groupdict()
            said = {name: _word(value) if name in _SPOKEN else value for name, value in values.items()}
            return template.format_map(said)
    return sentence


def _word(value: str) -> str:
    return _WORDS.get(value) or _in_japanese(value)


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(template)), re.DOTALL)


_OPEN = [(_pattern(template), japanese) for template, japanese in SENTENCES.items() if "{" in template]
