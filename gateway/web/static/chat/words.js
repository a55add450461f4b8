// What the chat says.

import { words } from "../lib/words.js";

const table = {
  // The conversation
  conversation: { en: "Conversation", ja: "会話" },
  new_chat: { en: "New chat", ja: "新しい会話" },
  you: { en: "You", ja: "あなた" },
  send: { en: "Send", ja: "送信" },
  stop: { en: "Stop", ja: "停止" },
  attach: { en: "Attach text or PDF", ja: "テキスト・PDFを添付" },
  to_latest: { en: "To the latest message", ja: "最新のメッセージへ" },

  // A message
  copy: { en: "Copy", ja: "コピー" },
  copied: { en: "Copied", ja: "コピーしました" },
  edit: { en: "Edit and send again", ja: "編集して再送信" },
  cancel: { en: "Cancel", ja: "キャンセル" },
  again: { en: "Answer again", ja: "もう一度回答" },
  try_again: { en: "Try again", ja: "再試行" },
  go_on: { en: "Continue", ja: "続きを生成" },
  earlier: { en: "Earlier version", ja: "前の版" },
  later: { en: "Later version", ja: "次の版" },
  version: { en: "Version {number} of {count}", ja: "{count} 件中 {number} 件目" },
  thinking: { en: "Thinking", ja: "思考の過程" },
  working: { en: "Working on it …", ja: "処理中…" },
  stopped: { en: "Stopped.", ja: "停止しました。" },
  cut: { en: "The answer reached its length limit.", ja: "回答が長さの上限に達しました。" },
  moved: {
    en: "The engine stopped in the middle of this answer; another one went on with it.",
    ja: "回答の途中でエンジンが停止したため、別のエンジンが続きを生成しました。",
  },
  reconnecting: {
    en: "The connection is lost. The answer goes on without you; catching up …",
    ja: "接続が切れました。回答の生成は続いています。再接続しています…",
  },
  queue: {
    en: "It is busy. You are number {position} in line.",
    ja: "混み合っています。順番待ち {position} 番目です。",
  },
  queue_wait: { en: "About {wait} to wait.", ja: "待ち時間はおよそ {wait} です。" },
  seconds: { en: "{count} s", ja: "{count} 秒" },
  leave: { en: "Leave the line", ja: "順番待ちをやめる" },
  spent: { en: "{tokens} {tokens|token|tokens} in {wait}", ja: "{tokens} トークン・{wait}" },

  // Told to a screen reader
  answer_began: { en: "The answer has started.", ja: "回答が始まりました。" },
  answer_done: { en: "The answer is complete.", ja: "回答が完了しました。" },
  answer_stopped: { en: "The answer was stopped.", ja: "回答を停止しました。" },
  answer_failed: { en: "The answer failed.", ja: "回答に失敗しました。" },

  // What went wrong, by the code of the error
  error_other: { en: "That did not work.", ja: "処理できませんでした。" },
  error_unreachable: {
    en: "The service cannot be reached. Check the network, then try again.",
    ja: "サービスに接続できません。ネットワークを確認して、もう一度お試しください。",
  },
  error_rate_limit_exceeded: { en: "You have reached a limit.", ja: "利用上限に達しました。" },
  error_insufficient_quota: { en: "Your quota is used up.", ja: "利用枠を使い切りました。" },
  error_queue_full: {
    en: "Too many people are waiting. Try again in a moment.",
    ja: "順番待ちが上限に達しています。しばらくしてからお試しください。",
  },
  error_queue_timeout: {
    en: "Your turn did not come in time. Try again in a moment.",
    ja: "時間内に順番が来ませんでした。しばらくしてからお試しください。",
  },
  error_context_length_exceeded: {
    en: "This conversation is too long for the model. Start a new one, or take a model with a larger context.",
    ja: "会話がこのモデルには長すぎます。新しい会話を始めるか、コンテキストの大きいモデルを選んでください。",
  },
  error_model_not_found: {
    en: "This model is not here any more. Choose another one.",
    ja: "このモデルは利用できなくなりました。別のモデルを選んでください。",
  },
  error_cancelled_by_administrator: {
    en: "An administrator ended this answer. Ask them before you send it again.",
    ja: "管理者がこの回答を終了しました。再送信の前に管理者に確認してください。",
  },
  error_store_unavailable: {
    en: "The service is not available at the moment. Try again shortly.",
    ja: "現在サービスを利用できません。しばらくしてからお試しください。",
  },
  error_gateway_gone: {
    en: "The gateway that wrote this answer failed. What was said is kept: continue it, or try again.",
    ja: "この回答を生成していたゲートウェイが停止しました。途中までの内容は保存されています。続きを生成するか、再試行してください。",
  },
  error_gateway_stopped: {
    en: "The gateway that wrote this answer was stopped. What was said is kept: continue it, or try again.",
    ja: "この回答を生成していたゲートウェイが停止されました。途中までの内容は保存されています。続きを生成するか、再試行してください。",
  },
  error_conversations_full: {
    en: "Your conversations take up all the room that there is for you. Delete some, then try again.",
    ja: "保存できる会話の容量を使い切りました。不要な会話を削除してから、もう一度お試しください。",
  },
  error_too_many_conversations: {
    en: "You have as many conversations as are kept. Delete some, then try again.",
    ja: "保存できる会話の数が上限に達しました。不要な会話を削除してから、もう一度お試しください。",
  },
  error_conversation_full: {
    en: "This conversation is as long as it may become. Start a new one.",
    ja: "この会話は長さの上限に達しました。新しい会話を始めてください。",
  },
  gone: { en: "This conversation does not exist any more.", ja: "この会話は存在しません。" },
  request: { en: "Request {id}", ja: "リクエスト {id}" },

  // Limits
  limit_near: { en: "{share} of your limit is used", ja: "上限の {share} を使用しています" },
  limit_reached: { en: "Your limit is reached", ja: "上限に達しました" },
  see_usage: { en: "My usage", ja: "利用状況を見る" },

  // Models and options
  model: { en: "Model", ja: "モデル" },
  context: { en: "Context: {tokens} tokens", ja: "コンテキスト：{tokens} トークン" },
  no_models: {
    en: "No model is ready at the moment. Try again in a minute; if it stays so, tell an administrator.",
    ja: "現在利用できるモデルがありません。しばらくしても変わらない場合は、管理者に連絡してください。",
  },
  options: { en: "Instructions and parameters", ja: "指示とパラメーター" },
  system: { en: "Instructions for the model", ja: "モデルへの指示" },
  system_hint: {
    en: "For this conversation, for example: answer briefly and in Japanese.",
    ja: "この会話全体への指示です。例：簡潔に、日本語で答えてください。",
  },
  temperature: { en: "Temperature (0 to 2)", ja: "温度（0〜2）" },
  top_p: { en: "Top p (0 to 1)", ja: "Top p（0〜1）" },
  max_tokens: { en: "Longest answer (tokens)", ja: "回答の最大長（トークン）" },
  as_usual: { en: "as the model has it", ja: "モデルの既定値" },
  save: { en: "Save", ja: "保存" },
  close: { en: "Close", ja: "閉じる" },

  // Conversations
  conversations: { en: "Conversations", ja: "会話一覧" },
  show_list: { en: "Show conversations", ja: "会話一覧を表示" },
  hide_list: { en: "Hide conversations", ja: "会話一覧を隠す" },
  search: { en: "Search conversations", ja: "会話を検索" },
  untitled: { en: "Untitled", ja: "無題" },
  none_yet: { en: "No conversations yet.", ja: "会話はまだありません。" },
  none_found: { en: "Nothing found.", ja: "見つかりませんでした。" },
  more: { en: "Show more", ja: "さらに表示" },
  actions_of: { en: "Actions for {title}", ja: "「{title}」の操作" },
  rename: { en: "Rename", ja: "名前を変更" },
  title: { en: "Title", ja: "タイトル" },
  export_markdown: { en: "Export as Markdown", ja: "Markdown で書き出す" },
  export_json: { en: "Export as JSON", ja: "JSON で書き出す" },
  remove: { en: "Delete", ja: "削除" },
  remove_question: { en: "Delete “{title}”?", ja: "「{title}」を削除しますか？" },
  remove_all: { en: "Delete all", ja: "すべて削除" },
  remove_all_question: { en: "Delete all of your conversations?", ja: "すべての会話を削除しますか？" },
  no_way_back: { en: "It cannot be brought back.", ja: "元に戻すことはできません。" },
  kept_days: {
    en: "Kept for {days} {days|day|days} after the last message.",
    ja: "最後のメッセージから {days} 日間保存されます。",
  },
  kept_server: { en: "Kept on the server until you delete them.", ja: "削除するまでサーバーに保存されます。" },
  kept_browser: { en: "Kept in this browser only.", ja: "このブラウザーにのみ保存されます。" },

  // Files
  drop: { en: "Drop text or PDF files here", ja: "テキスト・PDFファイルをここにドロップ" },
  reading: { en: "Reading {name} …", ja: "{name} を読み込み中…" },
  file_tokens: { en: "about {tokens} {tokens|token|tokens}", ja: "約 {tokens} トークン" },
  remove_file: { en: "Remove {name}", ja: "{name} を取り除く" },
  file_too_large: { en: "{name} is larger than {limit}.", ja: "{name} は {limit} を超えています。" },
  file_binary: { en: "{name} is neither text nor a PDF.", ja: "{name} はテキストでもPDFでもありません。" },
  file_empty: {
    en: "{name} holds no text. Is it a scan?",
    ja: "{name} にテキストがありません。スキャン画像かもしれません。",
  },
  file_broken: { en: "{name} cannot be read: {why}", ja: "{name} を読み取れません：{why}" },
  tokens_of: { en: "About {tokens} of {limit} tokens", ja: "約 {tokens} / {limit} トークン" },
  too_long: {
    en: "Too long for this model: about {tokens} of {limit} tokens. Shorten it, or take out a file.",
    ja: "このモデルには長すぎます：約 {tokens} / {limit} トークン。短くするか、ファイルを取り除いてください。",
  },
  too_many_bytes: {
    en: "A message may be {limit} long, and this one is {size}.",
    ja: "メッセージの上限は {limit} ですが、これは {size} です。",
  },

  // Templates
  templates: { en: "Prompt templates", ja: "プロンプトのひな形" },
  templates_none: {
    en: "None yet. A template is shared with your team.",
    ja: "まだありません。ひな形はチームで共有されます。",
  },
  template_by: { en: "By {name}", ja: "作成者：{name}" },
  template_by_gone: {
    en: "By {name}, who is not here any more: an administrator may change or delete it.",
    ja: "作成者：{name}（現在は利用者ではありません）。変更と削除は管理者が行えます。",
  },
  template_new: { en: "New template", ja: "ひな形を追加" },
  template_name: { en: "Name", ja: "名前" },
  edit_template: { en: "Edit template", ja: "ひな形を編集" },
  template_text: { en: "Text", ja: "本文" },
  template_remove: { en: "Delete the template “{title}”?", ja: "ひな形「{title}」を削除しますか？" },

  // Keys
  shortcuts: { en: "Keyboard shortcuts", ja: "キーボードショートカット" },
  key_send: { en: "Send", ja: "送信" },
  key_line: { en: "New line", ja: "改行" },
  key_stop: { en: "Stop the answer", ja: "回答を停止" },
  key_new: { en: "New chat", ja: "新しい会話" },
  key_search: { en: "Search conversations", ja: "会話を検索" },
  key_field: { en: "To the field", ja: "入力欄へ移動" },
  key_copy: { en: "Copy the last answer", ja: "最後の回答をコピー" },
  key_edit: { en: "Edit the last question (in the empty field)", ja: "最後の質問を編集（入力欄が空のとき）" },
  key_list: { en: "Show or hide conversations", ja: "会話一覧の表示・非表示" },
  key_help: { en: "This list", ja: "この一覧" },
};

export const say = words(table);
export const has = (key) => Object.hasOwn(table, key);
