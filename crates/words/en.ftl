# The English catalogue. Translations have the same messages with the same variables.
# A message's name gives its module and function in `unmask_words::say`: join-no-picture is say::join::no_picture.

## The pages

page-language = Language
page-student = unmask
page-projector = unmask: projector
page-replay = unmask: a recorded lesson
page-close = Close
page-expert-in-english = The expert view is in English.

## Numbers

unit-percent = { $value } %
unit-milliseconds = { $value } ms
unit-seconds = { $value } s
unit-minutes = { $minutes } min { $seconds } s
unit-none = none
unit-only-noise = nothing but noise

## Names

robot-name = robot { $number }

nickname-adjectives = amber, brave, bright, calm, clever, cosy, curious, daring, eager, gentle, golden, happy, jolly, keen, lively, lucky, merry, mighty, nimble, quiet, silver, snowy, swift, witty
nickname-animals = badger, bear, beaver, bison, crane, dolphin, falcon, fox, gecko, heron, koala, lemur, lynx, marten, otter, owl, panda, puffin, raven, robin, seal, stork, tiger, wombat
nickname-both = { $adjective } { $animal }

sample-astronaut = astronaut
sample-cat = cat
sample-coffee = coffee
sample-rocket = rocket
sample-cameraman = cameraman
sample-hubble = galaxies

class-airplane = airplane
class-automobile = automobile
class-bird = bird
class-cat = cat
class-deer = deer
class-dog = dog
class-frog = frog
class-horse = horse
class-ship = ship
class-truck = truck
class-person = person
class-animal = animal
class-plant = plant
class-food = food
class-vehicle = vehicle
class-building = building
class-thing = thing
class-landscape = landscape
class-sky = sky
class-not-said = not said
class-nameless = class { $place }

## The form before the room

join-intro = Your picture stays on this device. Only numbers made from it leave.
join-federation = This class learns together with others: what its devices have learnt goes to { $host }, too.
join-nickname = Nickname
join-another-nickname = Suggest another nickname
join-no-nickname = Type a nickname, or let the page suggest one.
join-picture = Your picture
join-chosen = The chosen picture
join-no-picture-yet = no picture yet
join-no-picture = Choose a picture first: a sample, a file or the camera.
join-samples = Sample photographs
join-file = Choose a file
join-formats = PNG, JPEG, WebP, GIF, AVIF; the middle is used.
join-may-show = The class may see what leaks from my picture
join-may-show-hint = If this is off, the projector never shows an attack on you. The server, which is the teacher’s computer, gets the same numbers either way, and the person who runs it could attack them unseen.
join-may-lend = Another phone may get my masked numbers and attack them
join-may-lend-hint = In scene 5, other students then try to see your picture in them. If you turn this off, their phones drop the numbers.
join-more = More choices
join-label = What the picture shows
join-label-hint = The model learns this word for it. What leaks does not depend on it.
join-passphrase = Passphrase
join-optional = optional
join-passphrase-hint = Only if the teacher asks for one. It never leaves this device.
join-join = Join
join-rejoin = Rejoin
join-someone-else = Join as someone else
join-kept = This tab kept your nickname and picture. Nobody else has them.
join-no-storage = This browser keeps nothing for this page. You can join, but after a reload you come back as somebody new. To prevent that, allow cookies and site data for this address.
join-private-picture = Your private picture
join-forgotten = Your data is deleted. You can close this page or join again as someone new.
join-still-on-disk = The room has deleted your data, but its disk still holds a copy that could not be overwritten yet. Tell the teacher: the copy goes as soon as the disk can be written.
join-was-here = You were here as { $nickname }
join-no-class = The address asks for the class “{ $class }”, which this room does not have. Choose another.
join-no-sample = The address asks for the sample “{ $image }”, which does not exist. Choose another.

field-show = Show
field-hide = Hide

camera-phone = Take a picture
camera-open = Use the camera
camera-live = Live camera picture
camera-shoot = Take this picture
camera-close = Close the camera
camera-blocked = The browser blocks the camera. Allow it in the address bar, or choose a file.
camera-missing = This device has no camera. Choose a file or a sample.
camera-no-reason = no reason given
camera-unusable = The camera cannot be used ({ $reason }). Choose a file or a sample.
camera-nothing-yet = The camera shows nothing yet. Wait a moment and try again.
camera-picture = camera picture

picture-unread = “{ $name }” could not be read. Choose it again, or choose another file.
picture-broken = “{ $name }” is broken: this browser cannot decode it. Choose another picture.
picture-unsaved = “{ $name }” could not be saved as PNG. Reload the page and try again.
picture-undrawn = “{ $name }” could not be drawn. Reload the page and try again.
picture-no-canvas = This browser has no canvas to draw pictures on. Use another browser.
picture-false-pixels = “{ $name }” cannot be used: against fingerprinting, this browser gives the page other pixels than those of the picture. Allow this page to read canvas data (Firefox: the picture symbol in the address bar; Brave: turn Shields off) and choose the picture again, or use another browser.
picture-unknown = “{ $name }” is not a picture that this page can read. Choose a PNG, JPEG, WebP, GIF or AVIF file.
picture-heic = “{ $name }” is a HEIC photograph, which most browsers cannot read. Take a screenshot of it and choose that, or use the camera here.
picture-empty = “{ $name }” claims to be { $width } × { $height } pixels, so there is nothing to show. Choose another picture.
picture-too-large = “{ $name }” has { $width } × { $height } pixels ({ $megapixels } megapixels); the limit is { $limit } megapixels. Make it smaller, or choose another picture.

## The way into the room

entrance-heading = Come in
entrance-lost = The server no longer knows this tab
entrance-lost-remedy = It has probably started another lesson. Nothing in this tab is lost: enter the PIN that the projector shows now.
entrance-hint = Scan the code on the projector, or type the six digits beside it.
entrance-pin = PIN
entrance-enter = Enter
entrance-six-digits = The PIN has six digits, such as 123 456. It is next to the QR code.

insecure-heading = Slower, and open to listeners.
insecure-why = Browsers allow WebGPU only over HTTPS, so this tab trains on the CPU. Anyone listening on this network sees what the server sees.
insecure-open = To use the GPU and to keep listeners out, open this address and accept the warning about the server’s own certificate:
insecure-no-address = The server’s HTTPS address is on the projector.

## The server's answers

api-not-fetched = { $path } could not be fetched. Is what serves this page still running?
api-answered = { $path } could not be fetched: the answer was { $status }.
api-broke-off = Loading { $path } was interrupted. Try again.
api-unknown-page = The relay does not know this page. It may have started another lesson: open the teacher link that it printed in the terminal.
api-refused = The relay refused: { $reason }
api-status = It answered { $status }. Reload the page.
api-unsendable = The browser cannot send this: { $error }.
api-no-answer = The server does not answer ({ $error }). Is it still running?
api-no-cookies = This browser keeps no cookies, and without one the room forgets this page. Allow cookies for this address, then reload the page.
api-unreadable = The server’s answer to { $route } cannot be read ({ $error }). Reload the page.

## Careful training

careful-title = Check the room
careful-switch = Look for doctored weights before training
careful-hint = The server chooses the weights, and some weights make your numbers show your picture. This device always looks at the weights. With this it also tries them on your picture first, which takes a third longer.
careful-asked = The teacher asks all devices to be careful.
careful-what = Rounds that look doctored
careful-refuse = Leave them out
careful-anyway = Train anyway
careful-found = Round { $round } looks doctored.
careful-trained = This device took part all the same.
careful-refused = This device sent nothing.
careful-length = The weights are those of another model.
careful-jump = The layer “{ $layer }” moved further than training can move it.
careful-size = The layer “{ $layer }” holds numbers that training does not reach.
careful-biases = The model is sure of a class before it sees a picture.
careful-rows = Only one class would be learnt.
careful-zero-head = No picture would teach the model anything.
careful-flat = { $flat } of { $pictures } pictures would teach the model nothing.
careful-doctored = The teacher lets the server cheat: it sends weights made to read a picture.
careful-list = The list of round { $round } (updates: { $updates }):
careful-listed = ✓ Your numbers are in it, as you sent them.
careful-missing = ✕ Your numbers are not in it, although you sent some.
careful-compare = Compare the four words with the wall and your neighbours. If they differ, the server sends people different weights or shows them different lists. If they agree, the sum can still be wrong: the words do not prove it.
careful-wall = List of round { $round }:

## The student's place in the room

room-try-now = Try now
room-closed = The connection is closed
room-taken-over = You have gone on in another tab of this browser, so this one has stopped. You can close it.
room-join-again = Join again
room-sitting-out = You sit out
room-sitting-out-why = This device has not taken part for two rounds, so the class continues without it. Come back when it is awake and you are looking at it.
room-come-back = Come back
room-needs-passphrase = The room asks for a passphrase
room-wrong-passphrase = ✕ This is not the class’s passphrase
room-passphrase = Passphrase
room-passphrase-hint = Ask the teacher for it. It never leaves this device. Nothing is sent until it is right.
room-use-passphrase = Use this passphrase
room-your-picture = Your picture
room-your-turn = Your turn
room-consent = Who may see it
room-numbers = The numbers that left
room-learns = The model learns the word “{ $class }” for your picture.
room-leak = What an attack sees in them
room-send = Send
room-less = Less
room-more = More
room-your-answer = your answer
room-show = Show my picture to the class
room-show-hint = The class then sees it, 32 pixels wide, beside what leaked from it. One tap withdraws it.
room-exposed = So few devices take part that another one could work out your numbers.
room-summed = The server learns only the sum of everybody’s updates, not yours. Nobody can check the size of one update.
room-no-secure-socket = This browser opens the page but not the room’s connection. Older iPhones and iPads do not accept the server’s own certificate for it, and blockers and VPN may stop it. Turn those off, update the device, use another browser, or ask the teacher whether there is an address that begins with http://.
room-no-socket = The page opens but the room’s connection does not: something blocks WebSockets. Turn off blockers and VPN for this address, or use another browser.
room-hide = Take my picture back
room-details = Details
room-leave = Leave
room-forget = Delete my data and leave
room-forgetting = Deleting…
room-forget-hint = “Delete” takes your pictures, the results about you and your name off the server, and your picture and name out of this page. What the model has already learnt stays in it.

status-failed = ✕ The trainer has stopped
status-loading = ◌ Loading the trainer…
status-ready = ○ Ready to join
status-connecting = ◌ Connecting…
status-at-the-door = ◌ The teacher will let you in
status-silent = ▲ The server does not answer
status-retrying = ▲ Connection lost: next try in { $seconds } s
status-closed = ✕ Not connected
status-waiting = ● Online. Waiting for a round
status-locked = ● Online. Waiting for the passphrase
status-sitting-out = ● Online, but left out of the rounds
status-computing = ● Round { $round }: computing…
status-sent = ● Round { $round }: numbers sent

connection-failed = The trainer has stopped
connection-online = Online
connection-silent = The server does not answer
connection-lost = Connection lost
connection-closed = Not connected

watch-lobby = You are in. Look at the projector.
watch-promise = Learning needs only numbers from you: you see them above.
watch-guess = Look at the projector: whose picture is this?
watch-april = Above is what the same attack gets from your numbers. Only you see it here.
watch-mask = Some of your numbers stay here now. Is your picture still in the rest?
watch-attackers = These attackers know different things. Above is what they get from your numbers.
watch-patience = Look at the projector: the attacker takes its time.
watch-trade-off = Look at the projector: what does hiding cost?
watch-membership = Look at the projector: can numbers tell whether a photograph was used?
watch-secret-sum = Look at the projector: how do numbers hide in a sum?
watch-sum = Look at the projector: does a sum hide your picture?
watch-dishonest = Look at the projector: the server cheats on purpose, for this lesson.
watch-checks = Look at the projector: what helps against such weights?
watch-debrief = That was the lesson. Below you can delete your data.

sees-shown = The class sees your picture, small, and what leaks from it.
sees-private = Only you see this. The projector shows robots and volunteers.
sees-may-show = The class may see what leaks from your picture. The picture itself stays here.
sees-sample = A sample photograph: the class may see what leaks from it and attack its masked numbers.
sees-waits = Your picture waits until the teacher lets the class see it, and so does what leaks from it.
sees-leak-waits = What leaks from your picture waits until the teacher lets the class see it. The picture itself stays here.

leak-own = What leaks from it
leak-zeros = Reads the gaps as zeros
leak-aware = Knows the gaps

farewell-thanks = Thank you for learning with us.
farewell-score = You were right { $right } of { $judged } times.
farewell-closest = The most that an attack saw of your picture on this device

known-nothing-left = No numbers have left this device so far.
known-recognisable = ✕ Your picture leaks: it is recognisable.
known-outlines = ▲ Outlines of your picture show.
known-hidden = ○ This attack cannot make out your picture.
known-searching = ◌ So far no search has made out your picture.
known-searching-outlines = ◌ So far the search shows outlines of your picture.
known-unused = Your picture is not used now: this tab learns from public pictures.
known-stuck = ○ This attack finds no way in.
known-none = No attack has looked at your picture so far.
known-only-shown = No numbers have left this device so far. Your picture is on the projector.
known-vote-first = Vote first. Then this page shows what the attack sees of your picture.

vote-given = Your answer: { $answer }. You can change it until the teacher shows the result.
vote-right = ✓ You were right: { $right }.
vote-wrong = ✕ You said { $said }. The answer is { $right }.
vote-missed = The answer is { $right }.
vote-answered = The class has answered.
vote-said = You said { $said }.
vote-was = It was { $right }.
vote-wrong-picture = ✕ You said { $said }. It was { $right }.
vote-both = { $answer } You said { $said }.
vote-unmeasured = No attack has answered this so far.
vote-robots = grey: robots, at random
vote-only-robots = only robots voted
vote-count = { $count ->
    [1] 1 vote
   *[other] { $count } votes
}
vote-unit = { $count ->
    [1] vote
   *[other] votes
}

trainer-no-worker = This browser cannot start the trainer. Use a current Chrome, Edge, Firefox or Safari.
trainer-not-running = The trainer is not running. Reload the page.
trainer-silent = The trainer does not respond. Reload the page.
trainer-encrypted = This tab encrypted the room’s model with your passphrase and sent it back.
trainer-not-forgotten = The connection was lost before your data was deleted. Press “Delete” again when it is back.
trainer-not-loaded = { $loader } could not be loaded
trainer-stopped = The trainer stopped: { $reason }. Reload the page to restart it.
notice-not-asked = The room cannot be reached, so it was not asked to delete anything. Try again when you are online.
notice-renamed = You are now { $nickname } in this room.
notice-no-update = No update was sent in round { $round }: { $reason }
notice-not-encrypted = The model could not be encrypted: { $reason }
notice-not-compared = The reconstruction of round { $round } cannot be compared: { $reason }
notice-not-shown = The picture cannot be shown: { $reason }

## Details

details-this-tab = This tab
details-round = Round
details-device = Device
details-choosing-device = choosing…
details-sent = Sent
details-settings = Model, rule and defence
details-picture = Private picture
details-picture-unused = It stays here and is not used now.
details-label = It stays here. Its label: { $class }.
details-no-round-closed = room: no round has closed yet
details-room-loss = room: { $loss }, mean of { $updates } in round { $round }
details-room-no-update = room: no update arrived in round { $round }
details-loss-own = Loss on your picture
details-loss-shared = Loss on your shared pictures
details-without-defence = { $bytes } without a defence
details-messages = Messages
details-own-attack = What this tab sees in its own update
details-own-attack-hint = Attacks made here on exactly what was sent. Nobody else sees the result.
details-own-attack-took = Round { $round }, { $defence }: { $time }.
details-reconstructed = What the relay reconstructed
details-reconstructed-hint = The relay attacked your update in several ways. This tab compares the results with your picture. Only the two scores go back.
details-attacked-round = round { $round }
details-as-the-model-sees = The picture as the model sees it
details-own-picture = your picture
details-shared-picture = the shared picture
details-reconstruction = reconstruction
details-several = made from several pictures, so it cannot be compared with one
details-recognisable = ✕ leaked: recognisable
details-not-yet = ◌ not recognisable yet
details-not-by-this = not recognisable by this attack; another may see more
details-not-undefended = not recognisable by this attack, although there is no defence
details-best-order = compared with its pieces in the best order, which only this tab can know
details-try-own = Try your own picture
details-try-hint = Ask the room’s model what a picture shows. The answer is computed here: the picture does not leave this device, and nobody else sees the answer.
details-try-private = My private picture
details-try-drop = or drop one here
details-try-before = The room’s model comes with the first round. Your picture waits for it.
details-try-busy = Waiting for this round’s step to end…
details-try-asking = Asking the model…
details-tried = The picture to try
details-tried-seen = The same as the model sees it
details-tried-seen-short = as the model sees it
details-sure = It is sure: { $class }, { $share }
details-thinks = It thinks: { $class }, { $share }
details-guesses = It guesses: { $class }, { $share }
details-asked-before = The room’s model before its first round. It knows { $classes } classes and assigns every picture to one of them; by chance, each gets { $chance }.
details-asked-after = The room’s model after round { $round }. It knows { $classes } classes and assigns every picture to one of them; by chance, each gets { $chance }.
details-trains-on = This tab trains on
details-also-has = This tab also has
details-shared-pictures = { $count ->
    [1] 1 shared picture of { $data }: { $classes }
   *[other] { $count } shared pictures of { $data }: { $classes }
}
details-unused = This round trains on your private picture instead.
details-used = This round uses { $pictures } of them.
details-shared = Shared pictures are public: the relay handed them out, divided { $partition }. Only your own picture is private.
details-evenly = evenly (IID)
details-dirichlet = by Dirichlet(α = { $alpha })
details-sheet = Some of the shared pictures, ordered by class
details-leaving = What leaves this device
details-nothing-left = Nothing so far. After the first round you will see here what did.
details-below = below zero
details-zero = zero
details-above = above zero
details-masked = removed by the defence
details-ciphertext = ciphertext
details-ciphertext-hint = encrypted; the other groups leave as computed
details-sent-update = Round { $round }: { $content }. { $bytes } sent, { $plain } without a defence.
details-gradient = { $pictures ->
    [1] the gradient of 1 picture
   *[other] the gradient of { $pictures } pictures
}
details-weights = { $epochs ->
    [1] the weights after 1 local epoch; pictures: { $pictures }
   *[other] the weights after { $epochs } local epochs; pictures: { $pictures }
}
details-drawing-note = The pictures show how far the weights moved from those received.
details-averaged = { $epochs ->
    [1] { $rule }, 1 local epoch at rate { $rate }
   *[other] { $rule }, { $epochs } local epochs at rate { $rate }
}
details-computed = { $group }: the update as computed
details-leaves = { $group }: what leaves
details-as-computed = as computed
details-as-sent = as sent
details-zeros = zeros
details-values = values
details-norm = norm
details-noise = noise to signal

step-locked = waiting for the passphrase
step-sitting-out = left out of the rounds
step-training = training…
step-sent = update sent; the step took { $time }
step-waiting = waiting for the teacher to start

## The scenes

lobby-title = Join
lobby-headline = Join with your phone
lobby-line = Scan the code, or type the address and the PIN.
lobby-say = Today your phones teach a computer together, and no phone has to send its picture for that.
lobby-ask = Who has a picture that only friends may see?
lobby-answer = Any answer will do. It shows why a picture may need protection.
lobby-pin = PIN
lobby-recorded = A recorded lesson
lobby-took-part = These took part.
lobby-here = { $count } here
lobby-more = and { $count } more
lobby-locked = ⊘ Locked
lobby-let-in = Let { $count } in
lobby-pictures-wait = { $count ->
    [1] 1 picture waits for the teacher
   *[other] { $count } pictures wait for the teacher
}
lobby-show-pictures = { $count ->
    [1] Show 1 picture
   *[other] Show { $count } pictures
}
lobby-lock = Lock
lobby-unlock = Unlock
lobby-remove = Remove { $nickname }
lobby-code = QR code of the address beside it
lobby-alone-headline = A class in your browser
lobby-alone-line = Robots learn on this device. Press Space.
lobby-be-student = Be a student, too
lobby-phone = Phone

promise-title = Promise
promise-headline = Your picture stays. Numbers leave.
promise-line-learn = Each phone learns one word for its own picture.
promise-line-send = Now the phones send what they learnt: numbers.
promise-line-stay = To learn, no phone has to send its picture.
promise-say = This is federated learning: the phones send numbers, the server adds them up, and no picture has to leave a phone for that.
promise-ask = Is your picture safe if only numbers leave?
promise-answer = Not by that alone. Scenes 2 and 3 show that numbers can contain the picture.
promise-drawing = A phone sends numbers to a server; the picture stays in the phone
promise-phone = phone
promise-server = server
promise-numbers = { $count } numbers
promise-question = Is your picture safe if only numbers leave?
promise-later = The next scenes answer this.

guess-title = Guess
guess-headline = Whose picture is this?
guess-line-vote = The server made this from numbers alone. Vote!
guess-line-votes = These are your votes.
guess-line-told = The numbers gave it away.
wall-leak = What leaks from { $name }’s update
guess-line-everybody = One update each. This is what it shows.
guess-say = The server computed this picture from the numbers of one phone; it did not use the picture itself.
guess-ask = How can numbers become a picture again?
guess-answer = The numbers depend on every pixel. For a single picture they are equations that can be solved.
guess-question = Whose picture did the server make from numbers?

april-title = APRIL
april-headline = The numbers were the picture
april-line-solve = An attack called APRIL solves one equation.
april-line-mask = The mask is on: half of the numbers stay home.
april-line-usual = A standard network leaks as well.
april-line-positions = One patch alone wrote this row of numbers.
april-line-patches = This table mixes all patches, each by its row.
april-line-patch = Row and table together: the pixels of the patch.
april-choose = Choose a patch
april-patch = Patch { $number }
april-rows = A row for each patch
april-row = The row of the chosen patch
april-mixed = All patches mixed, each by its row
april-solved = solved
april-all = All patches, solved
april-say = The numbers that a phone sends form an equation with one solution: the picture.
april-ask = What happens if the phone keeps half of the numbers?
april-answer = APRIL no longer sees the picture: it reads the gaps as zeros, so its equation is wrong. Scene 5 has a better attacker.
april-question = If half of the numbers stay home: does the picture still show?

mask-title = Mask
mask-headline = Half the numbers stay home
mask-line-own = Move R on your phone until your picture is gone.
mask-line-move = R is the part that stays home. Move it!
mask-line-vote = Is the picture safe now? Vote!
mask-line-votes = These are your votes.
mask-own-question = At which R is your own picture gone?
mask-own-median = Half of you stopped at R = { $rate } or below.
mask-own-nobody = Nobody moved the slider.
mask-say = Each phone decides at random which numbers stay home; this attacker reads the gaps as zeros.
mask-ask = Which R would be enough for you?
mask-answer = No R is proved to be enough. At R = 0.5, at least one attacker here usually sees the picture.
mask-question = Is the picture safe now?
mask-yes = Yes
mask-no = No
mask-slider = R, the part that stays home, in percent
mask-swarm = The rates that the class chose, from 0 to 0.95
mask-unproved = No attacker here makes it out. That does not prove it safe.
mask-one-sees = No: at least one attacker here makes it out.

attackers-title = Attackers
attackers-headline = The mask is no secret
attackers-line-zeros = This attacker reads the gaps as zeros.
attackers-line-knows = This one knows where the gaps are, and fills them in.
attackers-line-others = Your phone has someone’s numbers. Whose are they?
attackers-line-scores = These are the best attackers of the class.
attackers-line-puzzle = The order of the pieces is hidden. The pieces are not.
attackers-line-groups = Keep more numbers home where the picture is.
attackers-say = The server must know which numbers are missing to add them up, so a better attacker knows it too.
attackers-ask = A defence stops one attacker: what does that say about the next?
attackers-answer = Nothing. It shows that this attacker fails, and no more than that.
attackers-question = The next attacker knows the gaps. Does it see the picture?
attackers-whose = Whose masked numbers does your phone have?

## The game in scene 5

contest-waiting = The numbers come when the round has ended.
contest-computing = The attack computes…
contest-nothing-lent = There are no numbers for you to attack now.
contest-no-weights = This phone did not take part in the round of these numbers, so it cannot attack them.
contest-nobody-lends = Two must show their picture and lend their numbers first.
contest-leak = What an attack sees in someone’s masked numbers
contest-know-gaps = I know the gaps
contest-points-hint = Found now: 2 points. Found with the gaps: 1 point.
contest-points = { $points ->
    [1] 1 point
   *[other] { $points } points
}
contest-right = { $points ->
    [1] ✓ You were right: { $owner }. 1 point.
   *[other] ✓ You were right: { $owner }. { $points } points.
}
contest-guessed = { $count ->
    [1] 1 phone has guessed
   *[other] { $count } phones have guessed
}
contest-others = { $count ->
    [1] and 1 more with as many points
   *[other] and { $count } more with as many points
}
contest-nobody-played = Nobody has guessed.
contest-nobody-found = Nobody found the owner.
contest-counts = { $before } of { $all } found the owner before they knew the gaps, { $after } in the end; by chance 1 in { $suspects }.

patience-title = Patience
patience-headline = Guess, compare, guess again
patience-line-vote = How many seconds until we see who it is? Vote!
patience-line-guess = The computer guesses until the numbers fit.
patience-line-came = This is what the search found.
patience-say = With half of the numbers the computer still tries thousands of pictures and keeps those that fit better.
patience-ask = What would it cost to make guessing take a year?
patience-answer = Keep more numbers home, or mix more pictures into one update. Both can cost right answers, and a failed search proves nothing.
patience-question = After how many seconds do we see who it is?
patience-unit = seconds
patience-took = { $count ->
    [1] It took 1 second.
   *[other] It took { $count } seconds.
}
patience-closest = Closest guess: { $guess }
patience-hidden = Hidden until the search has found it.
patience-seconds = { $count ->
    [1] 1 second
   *[other] { $count } seconds
}
patience-steps = step { $step } of { $all }
patience-scrub = Pictures of the search, from the first to the last

trade-title = Trade-off
trade-headline = What does hiding cost?
trade-line-costs = The more stays home, the less the class can learn.
trade-line-vote = A larger R hides more and slows down learning. Vote!
trade-line-votes = These are your votes.
trade-line-run = Now the class runs this R.
trade-say = All columns have the same model, the same photograph and the same rounds; only R differs. Above is what an attacker who knows the gaps sees, below how many test pictures the model names right. With more rounds, R = 0.5 catches up.
trade-ask = Which column would you defend to a patient, and which to a doctor?
trade-answer = There is no right answer. A hospital must weigh right answers against what leaks, and say who decides.
trade-question = Which R would your hospital use?
trade-unit = %
trade-runs = The class runs R = { $rate }.
trade-right = named right
trade-chance = guessing: { $share }
trade-pending = being measured
trade-none = Nothing is measured here. A relay measures it: start it with --shadow-room.
trade-seen = What an attacker who knows the gaps sees at R = { $rate }
trade-setup = One run, round { $round }: { $robots } robots, { $model }, { $pictures } test pictures
trade-recorded = One earlier run, round { $round }: { $robots } robots, { $model }, { $pictures } test pictures

member-title = Was it you?
member-headline = Was this photograph used?
member-line-ask = Here are one phone’s numbers, and a photograph. Vote!
member-line-told = Anyone who has the photograph can ask the numbers.
member-line-stranger = And this one? It is somebody else’s.
member-say = Here nobody computes a picture: somebody who already has a photograph asks whether it was used.
member-ask = When would it hurt if people knew that your picture was in it?
member-answer = If the data say something about you: a photograph from a clinic, a protest or a shelter.
member-photograph = the photograph
member-seen = The photograph as the network sees it
member-scale = How much of the photograph does not fit what was in the update, on a logarithmic axis
member-was-in = ◀ was in it
member-was-not = was not ▶
member-this = ● this photograph
member-altered = ○ altered copies of it
member-file = File
member-forget = Forget
member-yes = ✕ Yes: { $nickname } learned from this photograph
member-no = ✓ No: { $nickname } did not learn from it
member-no-copy = ◌ { $nickname } did not learn from this copy
member-no-copy-hint = A file was resized for the model. The photograph itself may have been used.
member-did = Did { $nickname } use this photograph?
member-question = Was this photograph used?
member-undecided = ◌ This cannot be decided
member-waiting = ◌ Waiting for an update
member-silent = ◌ This update does not say

secret-title = Secret sum
secret-headline = How do numbers hide in a sum?
secret-line-masked = Each device adds random numbers. The server gets only noise.
secret-line-total = In the sum the random numbers cancel. The total is right.
secret-say = Agree on a passphrase aloud, and type it into the phones. Each pair of devices agrees on random numbers: one adds them, the other subtracts them. The server learns only the total.
secret-ask = Can the total give a picture away?
secret-answer = Yes, the total of few devices can, and so can weights that the server doctors. The next scenes show both.
secret-masked = sent by { $nickname }
secret-too-few = { $count } people must let the class see what leaks. Without people, { $count } robots are enough.
secret-waiting = Waiting for a sum of those who agreed to be shown…
secret-more = { $count ->
    [1] and 1 more
   *[other] and { $count } more
}

sum-title = One sum
sum-headline = Does a sum hide your picture?
sum-line-add = Suppose the server saw only the sum of these numbers.
sum-line-apart = The server takes the sum apart.
sum-say = In a sum, nobody sees the numbers of one device. For a few devices that is not enough.
sum-ask = How many devices should a sum have?
sum-answer = This attack separates at most 11 pictures on this model. It fails on more, which does not prove that they are safe.
sum-mixture = from the sum
sum-working = Taking the sum apart…
sum-tokens = Taking the sum apart: { $found } of { $all } pieces found…
sum-found = Back: { $found } of { $all } pictures, { $certain } of them certain, in { $seconds } s
sum-nothing = Nothing came out of this sum.
sum-too-few = Two must show their picture first.

cheat-title = Dishonest
cheat-headline = What if the server cheats?
cheat-line-aim = The server wants one picture. It needs the picture’s class.
cheat-line-fish = With these weights only this class changes the sum.
cheat-say = The server sends doctored weights. All other pictures add zero. The sum is then the numbers of one picture. The wall and every phone say so, and such rounds do not change the class’s model.
cheat-ask = Does a larger sum help?
cheat-answer = No. All others add zero. If several pictures have this class, the next rounds let fewer through.
cheat-class = The numbers gave the class away: { $class }.
cheat-no-class = Waiting for a single update, which gives the class away…

checks-title = Checks
checks-headline = Can your phone notice it?
checks-line-look = Each device looks at the weights before it trains.
checks-line-noise = Noise also helps against such weights.
checks-say = The phones compare the weights with the last ones and try them on their picture. They leave out rounds that look doctored. In step 2 they do not look. Each phone adds noise instead. A test with other pictures shows how well that hides: blind guesses are right half of the time.
checks-ask = Why should a phone check a server that it trusts?
checks-answer = Checking costs little. Phones do not notice a server that moves the weights slowly. Noise costs right answers.
checks-noticed = { $asked ->
    [1] { $left } of 1 device noticed, and sent nothing.
   *[other] { $left } of { $asked } devices noticed, and sent nothing.
}
checks-none-yet = Waiting for a round with doctored weights…
checks-trying = Testing the noise with other pictures…
checks-tried = Which of two pictures is in the sum? { $right } of { $trials } guesses right.

debrief-title = Take home
debrief-headline = What do you take home?
debrief-line-vote = Once more, with the mask: whose picture is this?
debrief-line-votes = These are your votes.
debrief-line-told = This is whose picture it was.
debrief-line-home = Three sentences to take home.
debrief-say = Numbers can be a picture, a mask helps against some, and it matters who looks.
debrief-ask = Would you take part with a picture of your own?
debrief-answer = Both answers are fine. Ask those who say no what would have to change.
debrief-question = Whose picture is behind the mask?
debrief-numbers = Numbers that leave your phone can be your picture.
debrief-defence = A defence that stops one attacker may not stop the next.
debrief-who = Ask who sees the numbers, and what they know.
debrief-seen = seen in “{ $scene }”

level-hidden = hidden
level-outlines = outlines show
level-recognisable = recognisable

shot-original = original
shot-from-numbers = made from numbers
shot-april = APRIL
shot-usual = from the usual network
shot-zeros = reads the gaps as zeros
shot-aware = knows the gaps
shot-pieces = finds the pieces, not their order
shot-guesses = the guesses so far

empty-nobody = Nobody is here yet.
empty-nobody-agreed = Nobody shows a picture. Robots would.
empty-paused = Paused: no update comes.
empty-waiting = Waiting for the first update…
empty-not-shown = The owner does not show it.
empty-no-picture = Nothing to see.
empty-too-many-numbers = This model has too many numbers to show.
empty-no-search = This relay cannot search.
empty-no-candidate = No photograph has been chosen yet.
empty-no-suspects = Two must show their picture before the class can vote.

bins-range = { $from } to { $to } { $unit }

## Defences on the curve

## The presenter

bar-presenter = Presenter
bar-scenes = Scenes
bar-next = Next
bar-next-title = Next step
bar-less-title = Less stays home
bar-more-title = More stays home
bar-mask = Mask
bar-mask-title = Mask on or off
bar-who = Who
bar-who-title = Next volunteer
bar-pause = Pause
bar-run = Run
bar-pause-title = Pause or go on
bar-blank = Blank
bar-blank-title = Blank the stage
bar-notes = Notes
bar-notes-title = Notes
bar-expert = Expert
bar-expert-title = Expert view
bar-language-title = Next language
bar-say = Say:
bar-ask = Ask:
bar-answer = Answer:
bar-loses = { $rounds ->
    [1] This scene begins with a new model; the class’s 1 round is lost.
   *[other] This scene begins with a new model; the class’s { $rounds } rounds are lost.
}
bar-begin = Begin (Enter)
bar-stay = Stay here (Escape)

shut-asking = Asking the server…
shut-lost = The server no longer knows this page
shut-title = This page shows the room to its teacher
shut-open = Open the projector link that the relay printed in the terminal, or the teacher link for a page with the controls. A relay that starts another lesson prints new links.
shut-part = Do you want to take part? Enter the PIN here:
shut-students = the students’ page

## The recorded lesson

replay-opening = Opening the lesson…
replay-open = Open a recorded lesson
replay-file = A lesson.unmask file, which stays in this page:
replay-nothing = Nothing is recorded in this file.
replay-part = Only a part of this lesson can be played: { $reason }.
replay-unreadable = The browser cannot read this file: { $error }.
replay-player = Recorded lesson
replay-play = Play
replay-pause = Pause
replay-place = Place in the lesson
replay-time = { $at } of { $length }
replay-slower = Slower
replay-faster = Faster

## The federation

federation-unnamed = Federation
federation-named = Federation { $host }
federation-asking = { $name }: asking
federation-lost = { $name }: no answer; the room goes on by itself
federation-idle = { $name }: no work yet
federation-held = { $name } waits: the room is paused
federation-done = { $count ->
    [1] { $name }: { $done } of 1 round here
   *[other] { $name }: { $done } of { $count } rounds here
}
federation-round = { $count ->
    [1] { $name }, round { $round }: { $done } of 1 round here
   *[other] { $name }, round { $round }: { $done } of { $count } rounds here
}

## Before a lesson

network-button = Check the network
network-good = good
network-problem = problem
network-unknown = cannot tell

## The end of a lesson

erase-button = Erase everything
erase-ask = This ends the lesson and erases its journal, recording and key, and what earlier lessons left in the data folder. Your downloads stay. Nothing brings the lesson back.
erase-keep = Keep
erase-yes = Erase everything now
erase-done = { $files ->
    [1] 1 file is erased, { $kilobytes } kB. The receipt is in erased.jsonl in the data folder. Start the relay again for another lesson.
   *[other] { $files } files are erased, { $kilobytes } kB. The receipt is in erased.jsonl in the data folder. Start the relay again for another lesson.
}
