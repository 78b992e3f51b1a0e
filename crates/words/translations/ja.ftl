# 日本語。生徒には「です・ます」で話しかける。

## The pages

page-language = 言語
page-student = unmask
page-projector = unmask：スクリーン
page-replay = unmask：授業の記録
page-close = 閉じる
page-expert-in-english = 専門家向けの画面は英語です。

## Numbers

unit-percent = { $value }%
unit-milliseconds = { $value }ミリ秒
unit-seconds = { $value }秒
unit-minutes = { $minutes }分{ $seconds }秒
unit-none = なし
unit-only-noise = ノイズのみ

## Names

robot-name = ロボット{ $number }

nickname-adjectives = 元気な, 陽気な, 静かな, 勇敢な, 親切な, 素直な, 器用な, のんきな, すてきな, おだやかな, にぎやかな, きれいな, 明るい, 優しい, 賢い, 強い, 速い, 白い, 青い, 赤い, 丸い, 小さい, 大きい, 楽しい
nickname-animals = アナグマ, クマ, ビーバー, バイソン, ツル, イルカ, ハヤブサ, キツネ, ヤモリ, サギ, コアラ, キツネザル, オオヤマネコ, テン, カワウソ, フクロウ, パンダ, ツノメドリ, カラス, コマドリ, アザラシ, コウノトリ, トラ, ウォンバット
nickname-both = { $adjective }{ $animal }

sample-astronaut = 宇宙飛行士
sample-cat = ネコ
sample-coffee = コーヒー
sample-rocket = ロケット
sample-cameraman = カメラマン
sample-hubble = 銀河

class-airplane = 飛行機
class-automobile = 自動車
class-bird = 鳥
class-cat = ネコ
class-deer = シカ
class-dog = イヌ
class-frog = カエル
class-horse = ウマ
class-ship = 船
class-truck = トラック
class-person = 人
class-animal = 動物
class-plant = 植物
class-food = 食べ物
class-vehicle = 乗り物
class-building = 建物
class-thing = 物
class-landscape = 風景
class-sky = 空
class-not-said = 答えない
class-nameless = クラス{ $place }

## The form before the room

join-intro = あなたの写真はこの端末から出ません。出ていくのは、写真から計算した数だけです。
join-federation = このクラスはほかのクラスと一緒に学習します。クラスの端末が学習した結果は { $host } にも送られます。
join-nickname = ニックネーム
join-another-nickname = 別のニックネームを提案する
join-no-nickname = ニックネームを入力するか、提案された名前を使ってください。
join-picture = あなたの写真
join-chosen = 選んだ写真
join-no-picture-yet = まだ写真がありません
join-no-picture = まず写真を選んでください。見本、ファイル、カメラのどれでもかまいません。
join-samples = 見本の写真
join-file = ファイルを選ぶ
join-formats = PNG、JPEG、WebP、GIF、AVIF。中央の部分を使います。
join-may-show = 自分の写真から漏れたものを、クラスのみんなに見せてもよい
join-may-show-hint = オフにすると、あなたへの攻撃はスクリーンに決して映りません。ただしサーバー（先生のコンピューター）には、どちらにしても同じ数が届きます。サーバーを動かす人なら、気づかれずにその数を攻撃できます。
join-may-lend = ほかの端末が、マスクされた自分の数を受け取って攻撃してもよい
join-may-lend-hint = 場面5で、ほかの人がその数からあなたの写真を見ようとします。オフにすると、その端末から数が消えます。
join-more = そのほかの設定
join-label = 写真に写っているもの
join-label-hint = モデルはこの言葉を覚えます。合うものがなければ、いちばん近いものを選んでください。何が漏れるかは、これでは変わりません。
join-passphrase = 合言葉
join-optional = 任意
join-passphrase-hint = 先生に言われたときだけ入力します。合言葉はこの端末から出ません。
join-join = 参加する
join-rejoin = もう一度参加する
join-someone-else = 別の人として参加する
join-kept = ニックネームと写真はこのタブに残っています。ほかの人は持っていません。
join-no-storage = このブラウザーはこのページのデータを保存しません。参加はできますが、再読み込みすると別の人として入り直すことになります。それを避けるには、このアドレスのCookieとサイトデータを許可してください。
join-private-picture = あなただけの写真
join-forgotten = あなたのデータは消えました。このページを閉じるか、新しく参加し直してください。
join-still-on-disk = ルームのデータは消えましたが、ディスクのコピーはまだ上書きできていません。先生に伝えてください。ディスクに書き込めるようになれば、コピーも消えます。
join-was-here = { $nickname }さんとして参加していました
join-no-class = アドレスで指定されたクラス「{ $class }」は、このルームにはありません。別のものを選んでください。
join-no-sample = アドレスで指定された見本「{ $image }」はありません。別のものを選んでください。

field-show = 表示
field-hide = 隠す

camera-phone = 写真を撮る
camera-open = カメラを使う
camera-live = カメラの映像
camera-shoot = この写真を使う
camera-close = カメラを閉じる
camera-blocked = ブラウザーがカメラを止めています。アドレスバーで許可するか、ファイルを選んでください。
camera-missing = この端末にはカメラがありません。ファイルか見本を選んでください。
camera-no-reason = 理由は不明
camera-unusable = カメラを使えません（{ $reason }）。ファイルか見本を選んでください。
camera-nothing-yet = カメラにまだ何も映っていません。少し待ってから、もう一度試してください。
camera-picture = カメラの写真

picture-unread = 「{ $name }」を読み込めませんでした。もう一度選ぶか、別のファイルを選んでください。
picture-broken = 「{ $name }」は壊れていて、このブラウザーでは開けません。別の写真を選んでください。
picture-unsaved = 「{ $name }」をPNGとして保存できませんでした。ページを再読み込みして、もう一度試してください。
picture-undrawn = 「{ $name }」を描けませんでした。ページを再読み込みして、もう一度試してください。
picture-no-canvas = このブラウザーは画像を描けません。別のブラウザーを使ってください。
picture-false-pixels = 「{ $name }」は使えません。このブラウザーは、フィンガープリンティング（端末の特定）を防ぐため、写真とは違う画素をページに渡しています。このページによるcanvasの読み取りを許可して（Firefoxではアドレスバーの画像アイコン、BraveではShieldsをオフにする）、写真を選び直すか、別のブラウザーを使ってください。
picture-unknown = 「{ $name }」は、このページで読める画像ではありません。PNG、JPEG、WebP、GIF、AVIFのどれかを選んでください。
picture-heic = 「{ $name }」はHEICの写真で、ほとんどのブラウザーでは読めません。そのスクリーンショットを選ぶか、ここでカメラを使ってください。
picture-empty = 「{ $name }」の大きさは{ $width } × { $height }ピクセルになっていて、表示するものがありません。別の写真を選んでください。
picture-too-large = 「{ $name }」は{ $width } × { $height }ピクセル（{ $megapixels }メガピクセル）あります。上限は{ $limit }メガピクセルです。小さくするか、別の写真を選んでください。

## The way into the room

entrance-heading = ようこそ
entrance-lost = サーバーはもうこのタブを知りません
entrance-lost-remedy = 新しい授業が始まったのかもしれません。このタブの中身は消えていません。いまスクリーンに出ているPINを入力してください。
entrance-hint = スクリーンのコードを読み取るか、その横の6桁の数字を入力してください。
entrance-pin = PIN
entrance-enter = 入る
entrance-six-digits = PINは「123 456」のような6桁の数字です。QRコードの横に出ています。

insecure-heading = 遅くなり、盗み見もされます。
insecure-why = ブラウザーはHTTPSでしかWebGPUを使わせないので、このタブはCPUで学習します。このネットワークを盗み聞きする人には、サーバーと同じものが見えます。
insecure-open = GPUを使い、盗み聞きを防ぐには、このアドレスを開き、サーバーの証明書についての警告を承認してください：
insecure-no-address = サーバーのHTTPSアドレスはスクリーンに出ています。

## The server's answers

api-not-fetched = { $path }を取得できませんでした。このページを配信しているプログラムは動いていますか。
api-answered = { $path }を取得できませんでした。応答は{ $status }でした。
api-broke-off = { $path }の読み込みが途中で切れました。もう一度試してください。
api-unknown-page = リレーはこのページを知りません。新しい授業が始まったのかもしれません。ターミナルに出た先生用のリンクを開いてください。
api-refused = リレーに断られました：{ $reason }
api-status = 応答は{ $status }でした。ページを再読み込みしてください。
api-unsendable = ブラウザーから送信できません：{ $error }
api-no-answer = サーバーが応答しません（{ $error }）。サーバーは動いていますか。
api-no-cookies = このブラウザーはCookieを保存しません。Cookieがないと、ルームはこのページを忘れます。このアドレスのCookieを許可してから、再読み込みしてください。
api-unreadable = { $route }へのサーバーの応答を読めません（{ $error }）。ページを再読み込みしてください。

## 慎重な学習

careful-title = ルームを確かめる
careful-switch = 学習の前に、細工された重みがないか調べる
careful-hint = 重みを選ぶのはサーバーです。重みによっては、あなたの数値から写真が見えてしまいます。この端末は重みをいつも調べます。これをオンにすると、先にあなたの写真でも試します。時間は3分の1ほど増えます。
careful-asked = 先生がすべての端末に慎重な学習を求めています。
careful-what = 細工が疑われるラウンド
careful-refuse = 参加しない
careful-anyway = それでも学習する
careful-found = ラウンド{ $round }には細工の疑いがあります。
careful-trained = この端末はそれでも参加しました。
careful-refused = この端末は何も送りませんでした。
careful-length = 別のモデルの重みです。
careful-jump = 層「{ $layer }」が、学習で動ける範囲を超えて動きました。
careful-size = 層「{ $layer }」に、学習では届かない数値があります。
careful-biases = モデルは写真を見る前から、あるクラスだと決めています。
careful-rows = 1つのクラスしか学習されません。
careful-zero-head = どの写真からもモデルは何も学べません。
careful-flat = 写真{ $pictures }枚のうち{ $flat }枚からは、モデルは何も学べません。
careful-doctored = 先生がサーバーにずるをさせています。サーバーは写真を読み取るための重みを送ります。
careful-list = ラウンド{ $round }の一覧（更新{ $updates }件）：
careful-listed = ✓ あなたの数値は、送ったとおりに入っています。
careful-missing = ✕ 送ったのに、あなたの数値は入っていません。
careful-compare = 4つの単語を、スクリーンや隣の人のものと比べてください。違っていれば、サーバーは人によって違う重みを送っているか、違う一覧を見せています。同じでも、合計が正しいとは限りません。単語はそれを証明しません。
careful-wall = ラウンド{ $round }の一覧：

## The student's place in the room

room-try-now = 今すぐ試す
room-closed = 接続は終了しました
room-taken-over = このブラウザーの別のタブで続けているので、このタブは停止しました。閉じてかまいません。
room-join-again = もう一度参加する
room-sitting-out = お休み中です
room-sitting-out-why = この端末が2ラウンド続けて参加できなかったので、クラスは先に進んでいます。端末が動いていて画面を見ているときに、戻ってきてください。
room-come-back = 戻る
room-needs-passphrase = ルームが合言葉を求めています
room-wrong-passphrase = ✕ クラスの合言葉と違います
room-passphrase = 合言葉
room-passphrase-hint = 先生に聞いてください。合言葉はこの端末から出ません。正しい合言葉を入れるまで、何も送られません。
room-use-passphrase = この合言葉を使う
room-your-picture = あなたの写真
room-your-turn = あなたの番です
room-consent = だれが見てよいか
room-numbers = 出ていった数
room-learns = モデルは、あなたの写真に「{ $class }」という言葉を学びます。
room-leak = その数から攻撃で見えるもの
room-send = 送る
room-less = 減らす
room-more = 増やす
room-your-answer = あなたの答え
room-show = クラスのみんなに写真を見せる
room-show-hint = 漏れたものと並べて、幅32ピクセルの写真がみんなに見えます。1回タップすれば取り消せます。
room-exposed = 参加している端末が少ないため、別の端末があなたの数値を計算できるおそれがあります。
room-summed = サーバーが知るのは全員の更新の合計だけで、あなたの更新は分かりません。一つの更新の大きさは誰にも確かめられません。
room-no-secure-socket = このブラウザーはページを開けますが、ルームへの接続を開けません。古いiPhoneやiPadは、接続にはサーバー独自の証明書を受け入れません。ブロッカーやVPNが妨げることもあります。それらを切るか、端末を更新するか、別のブラウザーを使うか、http://で始まるアドレスがあるか先生に聞いてください。
room-no-socket = ページは開けますが、ルームへの接続を開けません。何かがWebSocketを妨げています。このアドレスについてブロッカーとVPNを切るか、別のブラウザーを使ってください。
room-hide = 写真を見せるのをやめる
room-details = 詳細
room-leave = 退出する
room-forget = データを消して退出する
room-forgetting = 消しています…
room-forget-hint = 「消す」を選ぶと、サーバーからあなたの写真、あなたについての結果、名前が消え、このページからも写真と名前が消えます。モデルがすでに学んだことは、モデルに残ります。

status-failed = ✕ 学習プログラムが止まりました
status-loading = ◌ 学習プログラムを読み込み中…
status-ready = ○ 参加できます
status-connecting = ◌ 接続中…
status-at-the-door = ◌ 先生が入室を許可するまでお待ちください
status-silent = ▲ サーバーが応答しません
status-retrying = ▲ 接続が切れました：{ $seconds }秒後に再試行します
status-closed = ✕ 接続していません
status-waiting = ● 接続中。ラウンドを待っています
status-locked = ● 接続中。合言葉を待っています
status-sitting-out = ● 接続中。ラウンドはお休みです
status-computing = ● ラウンド{ $round }：計算中…
status-sent = ● ラウンド{ $round }：数を送りました

connection-failed = 学習プログラムが止まりました
connection-online = 接続しました
connection-silent = サーバーが応答しません
connection-lost = 接続が切れました
connection-closed = 接続していません

watch-lobby = 参加できました。スクリーンを見てください。
watch-promise = 学習に必要なのは数だけです。上に見えています。
watch-guess = スクリーンを見てください。これはだれの写真でしょうか。
watch-april = 上は、同じ攻撃があなたの数から得たものです。ここで見えるのはあなただけです。
watch-mask = 今は数の一部がここに残ります。残りの数に、まだ写真が入っているでしょうか。
watch-attackers = 攻撃者によって、知っていることが違います。上は、あなたの数から得たものです。
watch-patience = スクリーンを見てください。攻撃者は時間をかけます。
watch-trade-off = スクリーンを見てください。隠すと何を失うでしょうか。
watch-membership = スクリーンを見てください。写真が使われたかどうか、数から分かるでしょうか。
watch-secret-sum = スクリーンを見てください。数は合計の中にどう隠れるでしょうか。
watch-sum = スクリーンを見てください。合計すれば、写真は隠れるでしょうか。
watch-dishonest = スクリーンを見てください。この授業のために、サーバーがわざとずるをします。
watch-checks = スクリーンを見てください。このような重みには、何が効くでしょうか。
watch-debrief = 授業はこれで終わりです。下であなたのデータを消せます。

sees-shown = クラスのみんなに、小さくしたあなたの写真と、そこから漏れたものが見えています。
sees-private = これが見えるのはあなただけです。スクリーンに映るのは、ロボットと希望した人だけです。
sees-may-show = あなたの写真から漏れたものは、みんなに見えることがあります。写真そのものはここに残ります。
sees-sample = 見本の写真です。漏れたものはみんなに見えることがあり、マスクされた数は攻撃されることがあります。
sees-waits = 先生が見せると決めるまで、あなたの写真はみんなには見えません。写真から漏れたものも同じです。
sees-leak-waits = 先生が見せると決めるまで、あなたの写真から漏れたものはみんなには見えません。写真そのものはここに残ります。

leak-own = 漏れたもの
leak-zeros = 欠けた数を0として読む
leak-aware = どの数が欠けたか知っている

farewell-thanks = いっしょに学んでくれて、ありがとうございました。
farewell-score = { $judged }問中{ $right }問、正解でした。
farewell-closest = この端末で、攻撃に最もよく見えたあなたの写真

known-nothing-left = まだ数はこの端末から出ていません。
known-recognisable = ✕ 写真が漏れています。何の写真か分かります。
known-outlines = ▲ 写真の輪郭が見えています。
known-hidden = ○ この攻撃では、何の写真か分かりません。
known-searching = ◌ 今のところ、探索しても何の写真か分かりません。
known-searching-outlines = ◌ 今のところ、探索で輪郭が見えています。
known-unused = あなたの写真は今は使われていません。このタブは公開の画像から学んでいます。
known-stuck = ○ この攻撃は手がかりを見つけられません。
known-none = まだどの攻撃も、あなたの写真を調べていません。
known-only-shown = まだ数はこの端末から出ていません。あなたの写真はスクリーンに出ています。
known-vote-first = 先に投票してください。そのあと、攻撃に写真がどう見えるかを表示します。

vote-given = あなたの答え：{ $answer }。先生が結果を見せるまで変えられます。
vote-right = ✓ 正解です：{ $right }
vote-wrong = ✕ あなたの答えは{ $said }でした。正解は{ $right }です。
vote-missed = 正解は{ $right }です。
vote-answered = クラスの答えが出ました。
vote-said = あなたの答えは{ $said }でした。
vote-was = 正解は{ $right }です。
vote-wrong-picture = ✕ あなたの答えは{ $said }でした。正解は{ $right }です。
vote-both = { $answer }あなたの答えは{ $said }でした。
vote-unmeasured = まだどの攻撃もこれに答えていません。
vote-robots = 灰色：ロボット（無作為）
vote-only-robots = ロボットだけの投票
vote-count = { $count }票
vote-unit = { $count ->
   *[other] 票
}

trainer-no-worker = このブラウザーでは学習プログラムを始められません。最新のChrome、Edge、Firefox、Safariを使ってください。
trainer-not-running = 学習プログラムが動いていません。ページを再読み込みしてください。
trainer-silent = 学習プログラムが応答しません。ページを再読み込みしてください。
trainer-encrypted = このタブは、あなたの合言葉でルームのモデルを暗号化して送り返しました。
trainer-not-forgotten = データが消える前に接続が切れました。つながったら、もう一度「消す」を押してください。
trainer-not-loaded = { $loader }を読み込めませんでした
trainer-stopped = 学習プログラムが止まりました（{ $reason }）。ページを再読み込みすると、また始まります。
notice-not-asked = ルームに接続できないため、削除を依頼できませんでした。接続が戻ったら、もう一度試してください。
notice-renamed = これから、このルームでのあなたの名前は { $nickname } です。
notice-no-update = ラウンド{ $round }では更新を送りませんでした：{ $reason }
notice-not-encrypted = モデルを暗号化できませんでした：{ $reason }
notice-not-compared = ラウンド{ $round }の復元結果は比較できません：{ $reason }
notice-not-shown = 写真を見せることができません：{ $reason }

## Details

details-this-tab = このタブ
details-round = ラウンド
details-device = 計算装置
details-choosing-device = 選択中…
details-sent = 送信量
details-settings = モデル、規則、防御
details-picture = あなただけの写真
details-picture-unused = ここに残っていて、今は使われていません。
details-label = ここに残ります。ラベル：{ $class }
details-no-round-closed = ルーム：終わったラウンドはまだありません
details-room-loss = ルーム：{ $loss }（ラウンド{ $round }、{ $updates }件の平均）
details-room-no-update = ルーム：ラウンド{ $round }には更新が届きませんでした
details-loss-own = あなたの写真での損失
details-loss-shared = 共有画像での損失
details-without-defence = 防御がなければ{ $bytes }
details-messages = お知らせ
details-own-attack = このタブが自分の更新から見たもの
details-own-attack-hint = 実際に送ったものに対してここで行った攻撃です。結果はほかの人には見えません。
details-own-attack-took = ラウンド{ $round }、{ $defence }：{ $time }。
details-reconstructed = リレーが復元したもの
details-reconstructed-hint = リレーはあなたの更新をいくつかの方法で攻撃しました。このタブがその結果をあなたの写真と比べ、2つの点数だけを返します。
details-attacked-round = ラウンド{ $round }
details-as-the-model-sees = モデルから見た写真
details-own-picture = あなたの写真
details-shared-picture = 共有画像
details-reconstruction = 復元
details-several = 複数の画像から作られたので、比べる相手がありません
details-recognisable = ✕ 漏れました：何の写真か分かります
details-not-yet = ◌ まだ分かりません
details-not-by-this = この攻撃では分かりません。別の攻撃なら、もっと見えるかもしれません
details-not-undefended = 防御がないのに、この攻撃では分かりません
details-best-order = ピースを最もよい順に並べて比べました。その順はこのタブだけが分かります
details-try-own = 自分の写真で試す
details-try-hint = 写真に何が写っているかを、ルームのモデルに聞いてみましょう。答えはここで計算されます。写真はこの端末から出ず、答えもほかの人には見えません。
details-try-private = あなただけの写真
details-try-drop = またはここにドロップ
details-try-before = ルームのモデルは最初のラウンドで届きます。それまでお待ちください。
details-try-busy = このラウンドの計算が終わるのを待っています…
details-try-asking = モデルに聞いています…
details-tried = 試す写真
details-tried-seen = モデルから見た同じ写真
details-tried-seen-short = モデルから見たもの
details-sure = 確信しています：{ $class }、{ $share }
details-thinks = こう考えています：{ $class }、{ $share }
details-guesses = 推測です：{ $class }、{ $share }
details-asked-before = 最初のラウンドの前の、ルームのモデルです。{ $classes }個のクラスを知っていて、どの画像もその1つに分けます。偶然なら、それぞれ{ $chance }です。
details-asked-after = ラウンド{ $round }の後の、ルームのモデルです。{ $classes }個のクラスを知っていて、どの画像もその1つに分けます。偶然なら、それぞれ{ $chance }です。
details-trains-on = このタブが学ぶもの：
details-also-has = このタブが持っているもの：
details-shared-pictures = { $data }の共有画像{ $count }枚（{ $classes }）
details-unused = このラウンドでは、かわりにあなただけの写真から学びます。
details-used = このラウンドでは、そのうち{ $pictures }枚を使います。
details-shared = 共有画像は公開のものです。リレーが{ $partition }配りました。あなただけのものは、自分の写真だけです。
details-evenly = 均等に（IID）
details-dirichlet = Dirichlet(α = { $alpha })に従って
details-sheet = 共有画像の一部（クラス順）
details-leaving = この端末から出ていくもの
details-nothing-left = まだありません。最初のラウンドの後、出ていったものがここに出ます。
details-below = 0より小さい
details-zero = 0
details-above = 0より大きい
details-masked = 防御で取り除いた
details-ciphertext = 暗号文
details-ciphertext-hint = 暗号化されています。ほかのグループは計算したまま出ていきます
details-sent-update = ラウンド{ $round }：{ $content }。{ $bytes }を送信（防御がなければ{ $plain }）。
details-gradient = 画像{ $pictures }枚の勾配
details-weights = 画像{ $pictures }枚でローカル{ $epochs }エポック学習した後の重み
details-drawing-note = 図は、受け取った重みからどれだけ動いたかを表します。
details-averaged = { $rule }、ローカル{ $epochs }エポック、学習率{ $rate }
details-computed = { $group }：計算した更新
details-leaves = { $group }：出ていくもの
details-as-computed = 計算したまま
details-as-sent = 送ったもの
details-zeros = 0の割合
details-values = 値の数
details-norm = ノルム
details-noise = ノイズ対信号

step-locked = 合言葉を待っています
step-sitting-out = ラウンドはお休みです
step-training = 学習中…
step-sent = 更新を送りました。計算時間：{ $time }
step-waiting = 先生が始めるのを待っています

## The scenes

lobby-title = 参加
lobby-headline = スマートフォンで参加しよう
lobby-line = コードを読み取るか、アドレスとPINを入力してください。
lobby-say = 今日は、みなさんのスマートフォンが力を合わせてコンピューターに教えます。そのために写真を送る必要はありません。
lobby-ask = 友だちにしか見せられない写真を持っている人はいますか。
lobby-answer = どんな答えでもかまいません。写真を守る必要があることに気づくための質問です。
lobby-pin = PIN
lobby-recorded = 授業の記録
lobby-took-part = この人たちが参加しました。
lobby-here = { $count }人が参加中
lobby-more = ほか{ $count }人
lobby-locked = ⊘ 受付終了
lobby-let-in = { $count }人を入室させる
lobby-pictures-wait = { $count }枚の写真が先生の許可を待っています
lobby-show-pictures = { $count }枚の写真を見せる
lobby-lock = 締め切る
lobby-unlock = 受け付ける
lobby-remove = { $nickname }を退出させる
lobby-code = 横のアドレスのQRコード
lobby-alone-headline = ブラウザーの中の教室
lobby-alone-line = この端末でロボットが学習します。スペースキーを押してください。
lobby-be-student = 生徒として参加
lobby-phone = スマートフォン

promise-title = 約束
promise-headline = 写真は残り、数が出ていく
promise-line-learn = どの端末も、自分の写真を表す言葉を1つ学びます。
promise-line-send = 次に、学んだことを数として送ります。
promise-line-stay = 学習のために写真を送る必要はありません。
promise-say = これが連合学習です。端末は数を送り、サーバーはその数を足し合わせます。そのために写真を端末から出す必要はありません。
promise-ask = 出ていくのが数だけなら、写真は安全でしょうか。
promise-answer = それだけでは安全ではありません。数に写真が含まれることを、場面2と3で見ます。
promise-drawing = 端末がサーバーに数を送り、写真は端末に残る
promise-phone = 端末
promise-server = サーバー
promise-numbers = { $count }個の数
promise-question = 出ていくのが数だけなら、写真は安全ですか。
promise-later = この先の場面で答えが出ます。

guess-title = 推測
guess-headline = これはだれの写真？
guess-line-vote = サーバーが数だけから作りました。投票しましょう！
guess-line-votes = みなさんの投票です。
guess-line-told = 数が教えてくれました。
wall-leak = { $name }の更新から漏れたもの
guess-line-everybody = 更新は1台に1つ。見えるのはこれです。
guess-say = サーバーは、この写真を1台の端末の数から計算しました。写真そのものは使っていません。
guess-ask = 数がどうして写真に戻るのでしょうか。
guess-answer = 数はすべての画素によって決まります。写真が1枚だけなら、解くことのできる方程式になります。
guess-question = サーバーが数から作ったのは、だれの写真ですか。

april-title = APRIL
april-headline = 数が写真そのものだった
april-line-solve = APRILという攻撃が、1つの方程式を解きます。
april-line-mask = マスクがかかりました。数の半分は手元に残ります。
april-line-usual = ふつうのネットワークからも漏れます。
april-line-positions = この1行の数は、1つのパッチだけが書きました。
april-line-patches = この表には全パッチが混ざっています。
april-line-patch = 行と表を合わせると、パッチの画素になります。
april-choose = パッチを選ぶ
april-patch = パッチ{ $number }
april-rows = パッチごとに1行
april-row = 選んだパッチの行
april-mixed = 全パッチを、それぞれの行で混ぜたもの
april-solved = 解いたもの
april-all = 解いた全パッチ
april-say = 端末が送る数は、解が1つしかない方程式です。その解が写真です。
april-ask = 端末が数の半分を手元に残したら、どうなるでしょうか。
april-answer = APRILには見えなくなります。欠けた数を0として読むので、方程式が正しくなくなるからです。場面5に、より強い攻撃者が出ます。
april-question = 数の半分を手元に残しても、写真は見えますか。

mask-title = マスク
mask-headline = 数の半分は手元に残る
mask-line-own = 自分の写真が消えるまで、手元でRを動かしましょう。
mask-line-move = Rは手元に残す割合です。動かしてみましょう！
mask-line-vote = これで写真は安全ですか。投票しましょう！
mask-line-votes = みなさんの投票です。
mask-own-question = あなたの写真が消えるのは、Rがいくつのときですか。
mask-own-median = 半分の人は、R = { $rate }以下で止めました。
mask-own-nobody = だれもスライダーを動かしませんでした。
mask-say = 端末は、どの数を手元に残すかを無作為に決めます。この攻撃者は、欠けた数を0として読みます。
mask-ask = Rはどれくらいあれば十分だと思いますか。
mask-answer = 十分だと証明されたRはありません。R = 0.5では、ここの攻撃者の少なくとも1人にはたいてい見えます。
mask-question = これで写真は安全ですか。
mask-yes = はい
mask-no = いいえ
mask-slider = R（手元に残す割合、パーセント）
mask-swarm = クラスが選んだR（0から0.95まで）
mask-unproved = ここの攻撃者には見えません。でも、安全だという証明ではありません。
mask-one-sees = いいえ。ここの攻撃者の少なくとも1人には見えます。

attackers-title = 攻撃者
attackers-headline = マスクは秘密ではない
attackers-line-zeros = この攻撃者は、欠けた数を0として読みます。
attackers-line-knows = この攻撃者は、どの数が欠けたかを知っていて、埋めます。
attackers-line-others = 手元にあるのは、だれの数でしょうか。
attackers-line-scores = クラスでいちばんの攻撃者たちです。
attackers-line-puzzle = ピースの順番は隠れますが、ピースは隠れません。
attackers-line-groups = 写真の手がかりが多いところほど、手元に多く残します。
attackers-say = 足し合わせるために、サーバーはどの数が欠けているかを知る必要があります。だから賢い攻撃者もそれを知っています。
attackers-ask = ある攻撃者を防げたら、次の攻撃者も防げると言えるでしょうか。
attackers-answer = 何も言えません。分かるのは、この攻撃者が失敗したことだけです。
attackers-question = 次の攻撃者は、どの数が欠けたか知っています。写真は見えますか。
attackers-whose = あなたの端末にあるのは、だれのマスクされた数ですか。

## 場面5のゲーム

contest-waiting = ラウンドが終わると、数が届きます。
contest-computing = 攻撃を計算しています…
contest-nothing-lent = 今は、あなたが攻撃できる数がありません。
contest-no-weights = この端末は、その数のラウンドに参加していないので、攻撃できません。
contest-nobody-lends = まず2人以上が写真を見せ、数を貸す必要があります。
contest-leak = ほかの人のマスクされた数から攻撃で見えるもの
contest-know-gaps = どの数が欠けたか知っている
contest-points-hint = 今当てると2点。欠けた数を知ってから当てると1点。
contest-points = { $points }点
contest-right = ✓ 正解です：{ $owner }（{ $points }点）
contest-guessed = { $count }台が答えました
contest-others = 同じ点数の人がほかに{ $count }人
contest-nobody-played = だれも答えていません。
contest-nobody-found = 持ち主を当てた人はいません。
contest-counts = 欠けた数を知る前に当てた人：{ $all }人中{ $before }人。最後に当てた人：{ $after }人。偶然なら{ $suspects }人に1人。

patience-title = 根気
patience-headline = 予想して、比べて、また予想
patience-line-vote = 何秒でだれか分かるでしょうか。投票しましょう！
patience-line-guess = コンピューターは数が合うまで予想を続けます。
patience-line-came = 探索が見つけたものです。
patience-say = 数が半分でも、コンピューターは何千もの画像を試し、よりよく合うものを残します。
patience-ask = 予想に1年かかるようにするには、何を犠牲にすることになるでしょうか。
patience-answer = 手元に残す数を増やすか、1回の更新に写真を何枚も混ぜます。どちらも正解率が下がることがあります。探索の失敗は何の証明にもなりません。
patience-question = 何秒後に、だれか分かりますか。
patience-unit = 秒
patience-took = { $count }秒かかりました。
patience-closest = いちばん近い予想：{ $guess }
patience-hidden = 探索が見つけるまで隠します。
patience-seconds = { $count }秒
patience-steps = { $all }ステップ中{ $step }
patience-scrub = 探索の画像（最初から最後まで）

trade-title = かねあい
trade-headline = 隠すと何を失う？
trade-line-costs = 手元に多く残すほど、クラスは学びにくくなります。
trade-line-vote = Rが大きいと、よく隠れますが学習は遅くなります。投票！
trade-line-votes = みなさんの投票です。
trade-line-run = このRで、クラスが学習します。
trade-say = どの列も、モデル、写真、ラウンド数は同じで、Rだけが違います。上は欠けた場所を知る攻撃者に見えるもの、下はモデルが正しく答えたテスト画像の割合です。ラウンドを増やせば、R = 0.5は追いつきます。
trade-ask = 患者に説明するならどの列、医師に説明するならどの列を選びますか。
trade-answer = 正解はありません。病院は、正解の数と漏れるものを比べ、だれが決めるのかを言わなければなりません。
trade-question = あなたの病院なら、Rをいくつにしますか。
trade-unit = %
trade-runs = クラスはR = { $rate }で学習します。
trade-right = 正しく答えた割合
trade-chance = 当てずっぽう：{ $share }
trade-pending = 測定中
trade-none = ここでは測定していません。リレーを--shadow-room付きで起動すると測定します。
trade-seen = R = { $rate }のとき、欠けた場所を知る攻撃者に見えるもの
trade-setup = 1回の測定、ラウンド{ $round }：ロボット{ $robots }台、{ $model }、テスト画像{ $pictures }枚
trade-recorded = 以前の1回の測定、ラウンド{ $round }：ロボット{ $robots }台、{ $model }、テスト画像{ $pictures }枚

member-title = 使われた？
member-headline = この写真は使われた？
member-line-ask = ある端末の数と、1枚の写真です。投票しましょう！
member-line-told = 写真を持っている人は、数から確かめられます。
member-line-stranger = では、この写真は？別の人のものです。
member-say = ここでは写真を計算しません。すでに写真を持っている人が、使われたかどうかを調べます。
member-ask = 自分の写真が使われたと知られたら困るのは、どんなときでしょうか。
member-answer = データに入っているだけで、その人のことが分かる場合です。病院、デモ、避難所で撮った写真などです。
member-photograph = この写真
member-seen = ネットワークから見た写真
member-scale = 写真のうち、更新に入っていたものに合わない割合（対数目盛）
member-was-in = ◀ 使われた
member-was-not = 使われていない ▶
member-this = ● この写真
member-altered = ○ 少し変えた写真
member-file = ファイル
member-forget = 取り消す
member-yes = ✕ はい。{ $nickname }はこの写真から学びました
member-no = ✓ いいえ。{ $nickname }はこの写真から学んでいません
member-no-copy = ◌ { $nickname }はこのコピーから学んでいません
member-no-copy-hint = ファイルはモデルに合わせて縮小されます。元の写真は使われたかもしれません。
member-did = { $nickname }はこの写真を使いましたか。
member-question = この写真は使われましたか。
member-undecided = ◌ どちらとも言えません
member-waiting = ◌ 更新を待っています
member-silent = ◌ この更新からは分かりません

secret-title = 秘密の合計
secret-headline = 数は合計にどう隠れる？
secret-line-masked = 各端末が乱数を足し、サーバーには雑音しか届きません。
secret-line-total = 合計では乱数が打ち消し合い、答えは正しくなります。
secret-say = 合言葉を声に出して決め、端末に入力してください。端末は2台ずつ乱数を決め、1台が足して、もう1台が引きます。サーバーに分かるのは合計だけです。
secret-ask = 合計から写真が分かることがあるでしょうか。
secret-answer = あります。台数が少ないときと、サーバーが重みを細工したときです。次の場面で両方を見ます。
secret-masked = { $nickname }から
secret-too-few = { $count }人の同意が必要です。人がいなければ、ロボット{ $count }台で足ります。
secret-waiting = 見せることに同意した人の合計を待っています…
secret-more = { $count ->
   *[other] ほか{ $count }台
}

sum-title = 合計
sum-headline = 合計すれば写真は隠れる？
sum-line-add = サーバーに見えるのは数の合計だけ、とします。
sum-line-apart = サーバーが合計を分解します。
sum-say = 合計すると、1台ずつの数は見えなくなります。台数が少ないと、それだけでは足りません。
sum-ask = 合計には何台の端末が必要でしょうか。
sum-answer = このモデルでは、この攻撃が分けられるのは11枚までです。それより多いと失敗しますが、安全だという証明にはなりません。
sum-mixture = 合計から
sum-working = 合計を分解しています…
sum-tokens = 合計を分解しています：{ $all }個の断片のうち{ $found }個を発見…
sum-found = { $all }枚のうち{ $found }枚が復元され、{ $certain }枚は確実です（{ $seconds }秒）
sum-nothing = この合計からは何も出ませんでした。
sum-too-few = 先に2人が写真を見せる必要があります。

cheat-title = 不正直
cheat-headline = サーバーがずるをしたら？
cheat-line-aim = サーバーは1枚の写真をねらいます。そのクラスが必要です。
cheat-line-fish = この重みでは、このクラスの写真だけが合計を変えます。
cheat-say = サーバーは細工した重みを送ります。ほかの写真は0を足すだけです。すると合計は、1枚の写真の数になります。スクリーンにもどの端末にもそう表示され、このようなラウンドはクラスのモデルを変えません。
cheat-ask = 台数を増やせば助かるでしょうか。
cheat-answer = いいえ。ほかの端末は0を足すだけです。同じクラスの写真が何枚もあれば、次のラウンドで減らします。
cheat-class = 数からクラスが分かりました：{ $class }
cheat-no-class = クラスが分かる1台分の更新を待っています…

checks-title = 点検
checks-headline = 端末は気づける？
checks-line-look = 各端末が、学習の前に重みを調べます。
checks-line-noise = このような重みには、雑音も効きます。
checks-say = 端末は重みを前回と比べ、自分の写真で試します。細工が疑われるラウンドには参加しません。ステップ2では点検しません。代わりに各端末が雑音を足します。別の写真を使った試験で、雑音がどれだけ隠すかが分かります。当てずっぽうなら半分当たります。
checks-ask = 信頼しているサーバーを、なぜ点検するのでしょうか。
checks-answer = 点検の負担はわずかです。端末は、重みを少しずつ動かすサーバーには気づけません。雑音を足すと正解が減ります。
checks-noticed = { $asked ->
   *[other] { $asked }台のうち{ $left }台が気づき、何も送りませんでした。
}
checks-none-yet = 細工された重みのラウンドを待っています…
checks-trying = ほかの写真でノイズを試しています…
checks-tried = 2枚のうち、どちらが合計に入ったか。{ $trials } 回中 { $right } 回正解

debrief-title = まとめ
debrief-headline = 今日、何が分かった？
debrief-line-vote = もう一度、マスクありで。これはだれの写真？
debrief-line-votes = みなさんの投票です。
debrief-line-told = この人の写真でした。
debrief-line-home = 覚えておきたい3つのこと。
debrief-say = 数が写真になることもあります。マスクが効く相手もいます。だれが見るかが大事です。
debrief-ask = 自分の写真でも参加しますか。
debrief-answer = どちらの答えでもかまいません。「いいえ」の人には、何が変わればよいかを聞きましょう。
debrief-question = マスクの向こうは、だれの写真ですか。
debrief-numbers = スマートフォンから出る数は、写真そのものかもしれません。
debrief-defence = ある攻撃を止める守りでも、次の攻撃は止められないかもしれません。
debrief-who = だれがその数を見て、何を知っているのかを聞きましょう。
debrief-seen = 「{ $scene }」で見えたもの

level-hidden = 見えない
level-outlines = 輪郭が見える
level-recognisable = はっきり見える

shot-original = 元の写真
shot-from-numbers = 数から作ったもの
shot-april = APRIL
shot-usual = ふつうのネットワークから
shot-zeros = 欠けた数を0として読む
shot-aware = どの数が欠けたか知っている
shot-pieces = ピースは分かるが順番は分からない
shot-guesses = 予想の結果

empty-nobody = まだだれもいません。
empty-nobody-agreed = 写真を見せる人がいません。ロボットなら見せます。
empty-paused = 一時停止中：更新は来ません。
empty-waiting = 最初の更新を待っています…
empty-not-shown = 持ち主は見せていません。
empty-no-picture = 何も見えません。
empty-too-many-numbers = このモデルは数が多すぎて、ここでは見せられません。
empty-no-search = このリレーは探索できません。
empty-no-candidate = まだ写真が選ばれていません。
empty-no-suspects = 投票するには、2人以上が写真を見せる必要があります。

bins-range = { $from }～{ $to }{ $unit }

## Defences on the curve

## The presenter

bar-presenter = 進行
bar-scenes = 場面
bar-next = 次へ
bar-next-title = 次のステップ
bar-less-title = 手元に残す数を減らす
bar-more-title = 手元に残す数を増やす
bar-mask = マスク
bar-mask-title = マスクのオン・オフ
bar-who = 次の人
bar-who-title = 次の希望者
bar-pause = 停止
bar-run = 再開
bar-pause-title = 一時停止・再開
bar-blank = 暗転
bar-blank-title = 画面を暗くする
bar-notes = メモ
bar-notes-title = メモ
bar-expert = 専門
bar-expert-title = 専門家向けの画面
bar-language-title = 次の言語
bar-say = 話すこと：
bar-ask = 問いかけ：
bar-answer = 答え：
bar-loses = { $rounds ->
   *[other] この場面は新しいモデルで始まります。クラスの{ $rounds }ラウンド分は失われます。
}
bar-begin = 始める（Enter）
bar-stay = ここにとどまる（Escape）

shut-asking = サーバーに聞いています…
shut-lost = サーバーはもうこのページを知りません
shut-title = このページは先生にルームを見せるものです
shut-open = リレーがターミナルに出したスクリーン用のリンクを開いてください。先生用のリンクを開くと、操作もできます。新しい授業が始まると、リンクは変わります。
shut-part = 授業に参加しますか。ここでPINを入力してください：
shut-students = 生徒用のページ

## The recorded lesson

replay-opening = 授業を開いています…
replay-open = 授業の記録を開く
replay-file = ファイルlesson.unmask（このページから出ません）：
replay-nothing = このファイルには何も記録されていません。
replay-part = この授業は一部しか再生できません：{ $reason }
replay-unreadable = ブラウザーがこのファイルを読めません：{ $error }
replay-player = 授業の記録
replay-play = 再生
replay-pause = 一時停止
replay-place = 授業の中の位置
replay-time = { $at } / { $length }
replay-slower = 遅く
replay-faster = 速く

## The federation

federation-unnamed = 連合
federation-named = 連合 { $host }
federation-asking = { $name }に接続しています
federation-lost = { $name }から応答がありません。このルームだけで続けます
federation-idle = { $name }からの仕事はまだありません
federation-held = { $name }が待っています。ルームは一時停止中です
federation-done = { $count ->
    [1] { $name }：このルームでは1ラウンド中{ $done }
   *[other] { $name }：このルームでは{ $count }ラウンド中{ $done }
}
federation-round = { $count ->
    [1] { $name }、ラウンド{ $round }：このルームでは1ラウンド中{ $done }
   *[other] { $name }、ラウンド{ $round }：このルームでは{ $count }ラウンド中{ $done }
}

## Before a lesson

network-button = ネットワークを確かめる
network-good = 問題なし
network-problem = 問題あり
network-unknown = 不明

## The end of a lesson

erase-button = すべて消去
erase-ask = 授業を終え、ジャーナル、記録、鍵と、以前の授業がデータフォルダーに残したものを消去します。ダウンロードしたファイルは残ります。授業は元に戻せません。
erase-keep = 残す
erase-yes = 今すぐすべて消去
erase-done = { $files }個のファイル（{ $kilobytes } kB）を消去しました。控えはデータフォルダーの erased.jsonl にあります。次の授業には、リレーを起動し直してください。
