// What the planner says. Formulas in English are those of backends/capacity/plan.py; a test holds that.

import { words } from "../lib/words.js";

export const say = words({
  title: { en: "How many people does a machine carry?", ja: "1台で何人が使えるか" },
  intro: {
    en:
      "Decoding is bound by memory: each step reads the weights once for everybody, and the KV cache of each. From " +
      "this follows all below. Every speed is an upper bound: kernels reach a part of the bandwidth, which a " +
      "measurement tells.",
    ja:
      "デコードはメモリ帯域で決まります。1ステップごとに、重みは全員分で1回、" +
      "KVキャッシュは1人ずつ読み込みます。以下の値はすべてここから計算しています。速度はいずれも上限値です。" +
      "実際に帯域の何割が出るかは計測で分かります。",
  },
  share: { en: "Copy the link to this plan", ja: "この計画のリンクをコピー" },
  link: { en: "link", ja: "リンク" },

  group_model: { en: "Model", ja: "モデル" },
  group_hardware: { en: "Hardware", ja: "ハードウェア" },
  group_load: { en: "Load", ja: "利用条件" },
  group_measured: { en: "Measurements", ja: "計測値" },
  own_figures: { en: "Own figures …", ja: "数値を指定 …" },
  model: { en: "Model", ja: "モデル" },
  model_own: {
    en: "The figures stand in config.json and on the model's card.",
    ja: "config.json とモデルカードに記載の値を入力します。",
  },
  model_source: {
    en: "{hub}: {layers} layers, {heads} KV heads of {dim}",
    ja: "{hub}：{layers}層、KVヘッド{heads}×{dim}",
  },
  model_experts: { en: ", {each} of {number} experts", ja: "、エキスパート{number}個中{each}個" },
  params: { en: "Parameters (billions)", ja: "パラメーター数（10億）" },
  active_weight_bytes: { en: "Weights read a step (GB)", ja: "1ステップで読む重み（GB）" },
  layers: { en: "Layers", ja: "層数" },
  kv_heads: { en: "KV heads", ja: "KVヘッド数" },
  head_dim: { en: "Head dimension", ja: "ヘッド次元" },
  weights: { en: "Weights", ja: "重みの精度" },
  weights_int4: { en: "The head in int8.", ja: "出力層は int8 です。" },
  kv_cache_dtype: { en: "KV cache", ja: "KVキャッシュの精度" },
  hardware: { en: "Machine or GPU", ja: "GPU・マシン" },
  hardware_own: { en: "The figures stand in the maker's data sheet.", ja: "メーカーのデータシートの値を入力します。" },
  hardware_source: { en: "{memory} GiB, {speed} GB/s ({source})", ja: "{memory} GiB、{speed} GB/s（{source}）" },
  vram_gib: { en: "Memory (GiB)", ja: "メモリ（GiB）" },
  bandwidth: { en: "Bandwidth (GB/s)", ja: "メモリ帯域（GB/s）" },
  gpus: { en: "GPUs (tensor parallel)", ja: "GPU数（テンソル並列）" },
  utilisation: { en: "Share of memory used", ja: "メモリ使用率" },
  people: { en: "People at the peak", ja: "ピーク時の人数" },
  target: { en: "Target for each (tok/s)", ja: "1人あたりの目標（tok/s）" },
  context: { en: "Context (tokens)", ja: "コンテキスト長（トークン）" },
  output_tokens: { en: "Answer (tokens)", ja: "回答の長さ（トークン）" },
  shared_prefix: { en: "Shared prefix (tokens)", ja: "共通プレフィックス（トークン）" },
  measured: { en: "Measured batch:tok/s", ja: "計測値 バッチ:tok/s" },
  measured_hint: { en: "Of the whole server, such as 16:463,32:700", ja: "サーバー全体の値。例：16:463,32:700" },

  advice: { en: "Advice", ja: "推奨" },
  people_value: { en: "{count}", ja: "{count} 人" },
  seats: { en: "people at once on one machine", ja: "1台で同時に利用できる人数" },
  seats_speed: {
    en: "More would be slower than {target} tok/s each.",
    ja: "これより多いと、1人あたり {target} tok/s を下回ります。",
  },
  seats_memory: { en: "More would find no room in memory.", ja: "これより多いと、メモリに入りません。" },
  none_speed: { en: "Even one alone is slower than {target} tok/s.", ja: "1人だけでも {target} tok/s に届きません。" },
  none_memory: { en: "Not even one conversation of this length finds room.", ja: "この長さの会話は1つも入りません。" },
  machines_value: { en: "{count} ×", ja: "{count} 台" },
  machines: { en: "of this machine for {people} people", ja: "{people} 人に必要な台数" },
  machines_none: { en: "No number of them reaches the target.", ja: "何台あっても目標に届きません。" },
  machines_of: { en: "one is {gpus} × {hardware}", ja: "1台 = {hardware} × {gpus}" },
  wait: { en: "wait of the last on one machine", ja: "1台だけの場合の、最後の人の待ち時間" },
  per_user: { en: "tok/s for each, with {batch} at once", ja: "tok/s（{batch} 人で同時に使うときの1人あたり）" },
  expected_share: {
    en: "Counted with {share} of the computed speed, the least that was measured.",
    ja: "計測された最小値として、計算値の {share} で見積もっています。",
  },

  above_bound: {
    en: "What was measured is above the upper bound: it was another model, machine or format than this plan's.",
    ja: "計測値が上限値を超えています。この計画とは別のモデル、マシン、または精度で計測した値です。",
  },

  memory: { en: "Memory", ja: "メモリ" },
  weights_gib: { en: "Weights", ja: "重み" },
  kv_token: { en: "KV cache of a token", ja: "1トークンのKVキャッシュ" },
  kv_budget: { en: "Left for the KV cache", ja: "KVキャッシュに使える量" },
  does_not_fit: { en: "the weights do not fit", ja: "重みが入りきりません" },
  conversations: { en: "Conversations of {context} tokens held", ja: "{context} トークンの会話を保持できる数" },
  in_type: { en: "{number} in {type}", ja: "{type} で {number}" },
  memory_bar: {
    en: "Memory: weights {weights}, KV cache {kv}, unused {rest}",
    ja: "メモリ：重み {weights}、KVキャッシュ {kv}、未使用 {rest}",
  },
  unused: { en: "Unused", ja: "未使用" },

  speed: { en: "Speed by how many are served at once", ja: "同時処理数ごとの速度" },
  upper_bound: { en: "Upper bounds.", ja: "いずれも上限値です。" },
  batch: { en: "Batch", ja: "バッチ" },
  total: { en: "Total tok/s", ja: "全体 tok/s" },
  each: { en: "Each tok/s", ja: "1人 tok/s" },
  verdict: { en: "Target", ja: "目標" },
  meets: { en: "met", ja: "達成" },
  misses: { en: "missed", ja: "未達" },
  no_room: { en: "no room", ja: "メモリ不足" },
  step: { en: "Step", ja: "ステップ時間" },
  sums: { en: "Sums", ja: "うち通信" },
  experts: { en: "Experts read", ja: "エキスパート" },
  skewed: { en: "(skewed)", ja: "（偏りあり）" },
  measured_share: { en: "Measured / computed", ja: "計測 / 計算" },
  bytes: { en: "Bytes a step", ja: "1ステップの読み込み量" },
  bytes_bar: { en: "{weights} weights, {kv} KV cache", ja: "重み {weights}、KVキャッシュ {kv}" },
  legend_weights: { en: "Weights", ja: "重み" },
  legend_kv: { en: "KV cache", ja: "KVキャッシュ" },
  speed_table: { en: "Speed by batch, scrolls sideways", ja: "バッチごとの速度（横にスクロールできます）" },

  moe: { en: "Mixture of experts", ja: "Mixture of Experts（MoE）" },
  moe_words: {
    en:
      "The more are served at once, the more of the {number} experts of a layer are read: {one} for one alone, " +
      "{some} for {batch}. Where some are liked better than others (Zipf), {skewed}. The speeds above are computed " +
      "with experts chosen at random, which reads most.",
    ja:
      "同時処理数が増えるほど、1層あたり {number} 個のエキスパートのうち読み込む数が増えます。" +
      "1人なら {one} 個、{batch} 人なら {some} 個です。選ばれ方に偏りがある場合（Zipf則）は {skewed} 個です。" +
      "上の速度は、最も多く読み込む「均等に選ばれる場合」で計算しています。",
  },
  parallel: { en: "Tensor parallel", ja: "テンソル並列" },
  parallel_words: {
    en:
      "{gpus} GPUs read a part of the weights and of the KV cache each, and add up twice a layer: {time} of each " +
      "step at a batch of {batch}, {share} of it.",
    ja:
      "{gpus} 基のGPUが重みとKVキャッシュを分担して読み、1層につき2回集約します。" +
      "バッチ {batch} では1ステップあたり {time}、全体の {share} です。",
  },

  finish: { en: "When the last of {people} has the whole answer", ja: "{people} 人全員が回答を受け取り終わるまで" },
  sequential: { en: "One after the other", ja: "1人ずつ順番に処理" },
  batched: { en: "Together (continuous batching)", ja: "まとめて処理（連続バッチング）" },
  speedup: { en: "{times} times as quick", ja: "{times} 倍速い" },

  prompt: { en: "Prompt and first token", ja: "プロンプトと最初のトークン" },
  prefill: {
    en: "Prefill of {tokens} tokens: TTFT alone on the machine",
    ja: "{tokens} トークンのプリフィル：1人だけのときのTTFT",
  },
  prefill_shared: { en: "… where the first {tokens} are cached", ja: "… 先頭 {tokens} トークンがキャッシュ済みの場合" },
  last_prefill: {
    en: "TTFT of the last, where all {people} send at once",
    ja: "{people} 人が同時に送信したときの、最後の人のTTFT",
  },
  last_shared: { en: "… where the shared prefix is cached", ja: "… 共通プレフィックスがキャッシュ済みの場合" },
  no_prefill: {
    en: "No figure: the maker of this machine tells no rate of matrix products, or own figures stand in its place.",
    ja: "計算できません。このマシンの演算性能が公表されていないか、数値指定のためです。",
  },

  lines: { en: "To paste", ja: "起動コマンド" },
  no_lines: {
    en: "Commands are told for a model of the list that finds room.",
    ja: "一覧のモデルで、1人以上が利用できる場合に表示されます。",
  },
  command_of: { en: "command for {engine}", ja: "{engine} のコマンド" },
  note_gguf: {
    en: "Choose a GGUF of this model in the format that the file's name ends in.",
    ja: "ファイル名の末尾の形式に合う GGUF を用意してください。",
  },
  note_int8_checkpoint: {
    en:
      "Choose a checkpoint of this model in INT8 (compressed-tensors W8A8 or GPTQ with 8 bits) in the place of " +
      "INT8-CHECKPOINT. The engine reads the format from it.",
    ja:
      "INT8-CHECKPOINT を、" +
      "このモデルの INT8 版（compressed-tensors W8A8 または GPTQ 8ビット）に置き換えてください。" +
      "形式はエンジンが読み取ります。",
  },
  note_int4_checkpoint: {
    en:
      "Choose a checkpoint of this model in INT4 (AWQ or GPTQ, groups of 128) in the place of INT4-CHECKPOINT. The " +
      "engine reads the format from it.",
    ja:
      "INT4-CHECKPOINT を、このモデルの INT4 版（AWQ または GPTQ、グループサイズ128）に置き換えてください。" +
      "形式はエンジンが読み取ります。",
  },

  here: { en: "Measured behind this gateway", ja: "このゲートウェイでの計測値" },
  here_words: {
    en: "The mean of the last answers. Compare it with a plan for the same model and machine.",
    ja: "直近の回答の平均です。同じモデルとマシンの計画と比べてください。",
  },
  here_none: {
    en: "Nothing yet: it takes some twenty answers of a model that you may use.",
    ja: "まだありません。利用できるモデルの回答が20件ほど必要です。",
  },
  here_line: {
    en: "{model}: {running} at once, {total} tok/s, {each} for each",
    ja: "{model}：同時 {running} 件で {total} tok/s（1人 {each}）",
  },
  here_use: { en: "Compare", ja: "この計画と比較" },

  failed: { en: "This cannot be planned: {message}", ja: "計算できません：{message}" },
  away: {
    en: "The gateway does not answer. Change a value to try again.",
    ja: "ゲートウェイが応答しません。値を変更すると再試行します。",
  },

  formula_kv_bytes_per_token: {
    en: "2 (K and V) x layers x KV heads x head dim x bytes of an element",
    ja: "2（KとV）× 層数 × KVヘッド数 × ヘッド次元 × 要素のバイト数",
  },
  formula_weights_gib: { en: "parameters x bits / 8, by format", ja: "パラメーター数 × ビット数 / 8（形式ごと）" },
  formula_kv_budget_gib: { en: "memory x utilisation - weights", ja: "メモリ × 使用率 − 重み" },
  formula_conversations: {
    en: "(memory x utilisation - weights) / KV bytes of a token / context",
    ja: "（メモリ × 使用率 − 重み）/ 1トークンのKV / コンテキスト長",
  },
  formula_step_seconds: {
    en: "(weight bytes read + batch x KV bytes of a request) / bandwidth + sums over GPUs",
    ja: "（読む重み + バッチ × 1リクエストのKV）/ 帯域 + GPU間の集約",
  },
  formula_total_tok_s: { en: "batch / step time", ja: "バッチ / ステップ時間" },
  formula_per_user_tok_s: { en: "1 / step time", ja: "1 / ステップ時間" },
  formula_experts_read: {
    en: "experts x (1 - (1 - chosen / experts) ^ batch): each token chooses its own at random",
    ja: "エキスパート数 ×（1 −（1 − 選択数 / エキスパート数）^ バッチ）：トークンごとに無作為に選択",
  },
  formula_experts_read_skewed: {
    en:
      "sum over experts of 1 - exp(-t x batch / rank), t so that a batch of 1 has those chosen: popularity by " +
      "Zipf's law",
    ja: "Σ（1 − exp(−t × バッチ / 順位)）。t はバッチ1で選択数になる値（人気はZipf則）",
  },
  formula_sums: {
    en: "2 sums a layer x (2 (n - 1) / n x batch x hidden x 2 bytes / link + 10 us), n GPUs",
    ja: "1層2回 ×（2(n − 1)/n × バッチ × 隠れ次元 × 2バイト / リンク速度 + 10 µs）、n = GPU数",
  },
  formula_prefill_seconds: {
    en: "2 x active parameters x tokens / (operations a second x n GPUs); attention left out",
    ja: "2 × 有効パラメーター数 × トークン数 /（毎秒演算数 × GPU数）。アテンションは含まず",
  },
  formula_last_s: {
    en: "people x the time of one prompt: they share the machine's operations",
    ja: "人数 × 1プロンプトの時間（演算性能を分け合うため）",
  },
  formula_machines: { en: "people / seats, rounded up", ja: "人数 / 1台の人数（切り上げ）" },
  formula_measured_share: {
    en: "measured tok/s / computed tok/s; the least of them is what the advice counts on",
    ja: "計測 tok/s / 計算 tok/s。最小値を推奨の計算に使用",
  },
  formula_sequential_s: {
    en: "people x output tokens x step time of one",
    ja: "人数 × 回答トークン数 × 1人のステップ時間",
  },
  formula_batched_s: { en: "output tokens x step time of all together", ja: "回答トークン数 × 全員のステップ時間" },
  formula_wait_s: {
    en: "place in line x output tokens x step time / max-num-seqs",
    ja: "列の順番 × 回答トークン数 × ステップ時間 / max-num-seqs",
  },
});
