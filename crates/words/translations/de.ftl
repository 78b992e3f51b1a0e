# Deutsch. Lernende werden geduzt, Lehrende nicht angeredet.

## The pages

page-language = Sprache
page-student = unmask
page-projector = unmask: Beamer
page-replay = unmask: eine aufgezeichnete Stunde
page-close = Schließen
page-expert-in-english = Die Expertenansicht ist nur auf Englisch.

## Numbers

unit-percent = { $value } %
unit-milliseconds = { $value } ms
unit-seconds = { $value } s
unit-minutes = { $minutes } min { $seconds } s
unit-none = keines
unit-only-noise = nur Rauschen

## Names

robot-name = Roboter { $number }

nickname-adjectives = bunter, flinker, fröhlicher, froher, heller, kecker, kluger, kühner, lieber, lustiger, munterer, mutiger, netter, neugieriger, ruhiger, sanfter, schlauer, schneller, starker, stiller, tapferer, wacher, wilder, zarter
nickname-animals = Bär, Biber, Bison, Dachs, Delfin, Falke, Fuchs, Gecko, Hase, Igel, Koala, Kranich, Luchs, Marder, Otter, Panda, Rabe, Reiher, Seehund, Spatz, Storch, Tiger, Uhu, Wombat
nickname-both = { $adjective } { $animal }

sample-astronaut = Astronautin
sample-cat = Katze
sample-coffee = Kaffee
sample-rocket = Rakete
sample-cameraman = Kameramann
sample-hubble = Galaxien

class-airplane = Flugzeug
class-automobile = Auto
class-bird = Vogel
class-cat = Katze
class-deer = Hirsch
class-dog = Hund
class-frog = Frosch
class-horse = Pferd
class-ship = Schiff
class-truck = Lastwagen
class-person = Mensch
class-animal = Tier
class-plant = Pflanze
class-food = Essen
class-vehicle = Fahrzeug
class-building = Gebäude
class-thing = Ding
class-landscape = Landschaft
class-sky = Himmel
class-not-said = keine Angabe
class-nameless = Klasse { $place }

## The form before the room

join-intro = Dein Bild bleibt auf diesem Gerät. Nur daraus berechnete Zahlen verlassen es.
join-federation = Diese Klasse lernt gemeinsam mit anderen: Was ihre Geräte gelernt haben, geht auch an { $host }.
join-nickname = Spitzname
join-another-nickname = Einen anderen Spitznamen vorschlagen
join-no-nickname = Gib einen Spitznamen ein oder lass dir einen vorschlagen.
join-picture = Dein Bild
join-chosen = Das gewählte Bild
join-no-picture-yet = noch kein Bild
join-no-picture = Wähle zuerst ein Bild: ein Beispiel, eine Datei oder die Kamera.
join-samples = Beispielfotos
join-file = Datei wählen
join-formats = PNG, JPEG, WebP, GIF, AVIF; verwendet wird die Mitte.
join-may-show = Die Klasse darf sehen, was von meinem Bild durchsickert
join-may-show-hint = Ist das aus, zeigt der Beamer nie einen Angriff auf dich. Der Server, also der Computer der Lehrkraft, bekommt so oder so dieselben Zahlen, und wer ihn betreibt, könnte sie unbemerkt angreifen.
join-may-lend = Ein anderes Handy darf meine maskierten Zahlen bekommen und angreifen
join-may-lend-hint = In Szene 5 versuchen andere dann, dein Bild darin zu sehen. Schaltest du das aus, löschen ihre Handys die Zahlen.
join-more = Weitere Einstellungen
join-label = Was das Bild zeigt
join-label-hint = Dieses Wort lernt das Modell dafür. Passt keines, nimm das nächstliegende: Was durchsickert, hängt nicht davon ab.
join-passphrase = Passwort
join-optional = optional
join-passphrase-hint = Nur wenn die Lehrkraft eines verlangt. Es verlässt dieses Gerät nie.
join-join = Mitmachen
join-rejoin = Wieder mitmachen
join-someone-else = Als jemand anderes mitmachen
join-kept = Dieser Tab hat Spitznamen und Bild behalten. Sonst hat sie niemand.
join-no-storage = Dieser Browser behält nichts für diese Seite. Du kannst mitmachen, kommst aber nach einem Neuladen als jemand anderes zurück. Damit das nicht geschieht, erlaube Cookies und Websitedaten für diese Adresse.
join-private-picture = Dein privates Bild
join-forgotten = Deine Daten sind gelöscht. Du kannst diese Seite schließen oder neu mitmachen.
join-still-on-disk = Der Raum hat deine Daten gelöscht, aber auf seiner Festplatte liegt noch eine Kopie, die noch nicht überschrieben werden konnte. Sag der Lehrkraft Bescheid: Die Kopie verschwindet, sobald die Festplatte wieder beschrieben werden kann.
join-was-here = Du warst hier als { $nickname }
join-no-class = Die Adresse verlangt die Klasse „{ $class }“, die es in diesem Raum nicht gibt. Wähle eine andere.
join-no-sample = Die Adresse verlangt das Beispiel „{ $image }“, das es nicht gibt. Wähle ein anderes.

field-show = Zeigen
field-hide = Verbergen

camera-phone = Foto aufnehmen
camera-open = Kamera verwenden
camera-live = Livebild der Kamera
camera-shoot = Dieses Bild nehmen
camera-close = Kamera schließen
camera-blocked = Der Browser sperrt die Kamera. Erlaube sie in der Adresszeile oder wähle eine Datei.
camera-missing = Dieses Gerät hat keine Kamera. Wähle eine Datei oder ein Beispiel.
camera-no-reason = ohne Angabe eines Grundes
camera-unusable = Die Kamera lässt sich nicht verwenden ({ $reason }). Wähle eine Datei oder ein Beispiel.
camera-nothing-yet = Die Kamera zeigt noch nichts. Warte einen Moment und versuche es noch einmal.
camera-picture = Kamerabild

picture-unread = „{ $name }“ ließ sich nicht lesen. Wähle die Datei noch einmal oder eine andere.
picture-broken = „{ $name }“ ist beschädigt: Dieser Browser kann es nicht öffnen. Wähle ein anderes Bild.
picture-unsaved = „{ $name }“ ließ sich nicht als PNG speichern. Lade die Seite neu und versuche es noch einmal.
picture-undrawn = „{ $name }“ ließ sich nicht zeichnen. Lade die Seite neu und versuche es noch einmal.
picture-no-canvas = Dieser Browser kann keine Bilder zeichnen. Verwende einen anderen.
picture-false-pixels = „{ $name }“ ist hier nicht zu gebrauchen: Zum Schutz vor Wiedererkennung (Fingerprinting) gibt dieser Browser der Seite andere Pixel als die des Bildes. Erlaube der Seite, Canvas-Daten auszulesen (Firefox: das Bildsymbol in der Adressleiste; Brave: die Shields ausschalten), und wähle das Bild noch einmal, oder verwende einen anderen Browser.
picture-unknown = „{ $name }“ ist kein Bild, das diese Seite lesen kann. Wähle eine Datei in PNG, JPEG, WebP, GIF oder AVIF.
picture-heic = „{ $name }“ ist ein HEIC-Foto, das die meisten Browser nicht lesen können. Wähle einen Screenshot davon oder nimm hier die Kamera.
picture-empty = „{ $name }“ hat angeblich { $width } × { $height } Pixel; da gibt es nichts zu zeigen. Wähle ein anderes Bild.
picture-too-large = „{ $name }“ hat { $width } × { $height } Pixel ({ $megapixels } Megapixel); erlaubt sind { $limit } Megapixel. Verkleinere es oder wähle ein anderes Bild.

## The way into the room

entrance-heading = Komm herein
entrance-lost = Der Server kennt diesen Tab nicht mehr
entrance-lost-remedy = Wahrscheinlich hat eine neue Stunde begonnen. In diesem Tab ist nichts verloren: Gib die PIN ein, die jetzt auf dem Beamer steht.
entrance-hint = Scanne den Code auf dem Beamer oder tippe die sechs Ziffern daneben ein.
entrance-pin = PIN
entrance-enter = Eintreten
entrance-six-digits = Die PIN hat sechs Ziffern, zum Beispiel 123 456. Sie steht neben dem QR-Code.

insecure-heading = Langsamer und nicht abhörsicher.
insecure-why = Browser erlauben WebGPU nur über HTTPS, deshalb rechnet dieser Tab mit der CPU. Wer in diesem Netz mithört, sieht, was der Server sieht.
insecure-open = Damit die GPU rechnet und niemand mithört, öffne diese Adresse und bestätige die Warnung vor dem Zertifikat des Servers:
insecure-no-address = Die HTTPS-Adresse des Servers steht auf dem Beamer.

## The server's answers

api-not-fetched = { $path } ließ sich nicht laden. Läuft noch, was diese Seite ausliefert?
api-answered = { $path } ließ sich nicht laden: Die Antwort war { $status }.
api-broke-off = { $path } brach beim Laden ab. Versuche es noch einmal.
api-unknown-page = Das Relay kennt diese Seite nicht. Vielleicht hat eine neue Stunde begonnen: Der Link für die Lehrkraft steht im Terminal.
api-refused = Das Relay hat abgelehnt: { $reason }
api-status = Die Antwort war { $status }. Lade die Seite neu.
api-unsendable = Der Browser kann das nicht senden: { $error }.
api-no-answer = Der Server antwortet nicht ({ $error }). Läuft er noch?
api-no-cookies = Dieser Browser behält keine Cookies, und ohne ein Cookie vergisst der Raum diese Seite. Erlaube Cookies für diese Adresse und lade die Seite neu.
api-unreadable = Die Antwort des Servers auf { $route } ist nicht lesbar ({ $error }). Lade die Seite neu.

## Vorsichtiges Training

careful-title = Den Raum prüfen
careful-switch = Vor dem Training nach manipulierten Gewichten suchen
careful-hint = Der Server wählt die Gewichte, und manche Gewichte sorgen dafür, dass deine Zahlen dein Bild verraten. Dieses Gerät sieht sich die Gewichte immer an. Hiermit probiert es sie auch zuerst an deinem Bild aus; das dauert ein Drittel länger.
careful-asked = Die Lehrkraft bittet alle Geräte um Vorsicht.
careful-what = Runden, die manipuliert aussehen
careful-refuse = Auslassen
careful-anyway = Trotzdem trainieren
careful-found = Runde { $round } sieht manipuliert aus.
careful-trained = Dieses Gerät hat trotzdem mitgemacht.
careful-refused = Dieses Gerät hat nichts gesendet.
careful-length = Die Gewichte gehören zu einem anderen Modell.
careful-jump = Die Schicht „{ $layer }“ hat sich weiter bewegt, als Training sie bewegen kann.
careful-size = Die Schicht „{ $layer }“ enthält Zahlen, die Training nicht erreicht.
careful-biases = Das Modell ist sich einer Klasse sicher, bevor es ein Bild sieht.
careful-rows = Nur eine Klasse würde gelernt.
careful-zero-head = Kein Bild würde dem Modell etwas beibringen.
careful-flat = { $flat } von { $pictures } Bildern würden dem Modell nichts beibringen.
careful-doctored = Die Lehrkraft lässt den Server betrügen: Er sendet Gewichte, die ein Bild auslesen sollen.
careful-list = Die Liste der Runde { $round } (Updates: { $updates }):
careful-listed = ✓ Deine Zahlen stehen darin, so wie du sie gesendet hast.
careful-missing = ✕ Deine Zahlen stehen nicht darin, obwohl du welche gesendet hast.
careful-compare = Vergleiche die vier Wörter mit der Wand und mit deinen Nachbarn. Sind sie verschieden, schickt der Server verschiedene Gewichte oder zeigt verschiedene Listen. Sind sie gleich, kann die Summe trotzdem falsch sein: Die Wörter beweisen sie nicht.
careful-wall = Liste der Runde { $round }:

## The student's place in the room

room-try-now = Jetzt versuchen
room-closed = Die Verbindung ist beendet
room-taken-over = Du machst in einem anderen Tab dieses Browsers weiter, darum hat dieser aufgehört. Du kannst ihn schließen.
room-join-again = Wieder mitmachen
room-sitting-out = Du setzt aus
room-sitting-out-why = Dieses Gerät hat zwei Runden lang nicht mitgemacht, deshalb macht die Klasse ohne dich weiter. Komm zurück, wenn es wach ist und du hinschaust.
room-come-back = Zurückkommen
room-needs-passphrase = Der Raum verlangt ein Passwort
room-wrong-passphrase = ✕ Das ist nicht das Passwort der Klasse
room-passphrase = Passwort
room-passphrase-hint = Frag die Lehrkraft danach. Es verlässt dieses Gerät nie. Solange es nicht stimmt, wird nichts gesendet.
room-use-passphrase = Dieses Passwort verwenden
room-your-picture = Dein Bild
room-your-turn = Du bist dran
room-consent = Wer es sehen darf
room-numbers = Die Zahlen, die hinausgingen
room-learns = Das Modell lernt für dein Bild das Wort „{ $class }“.
room-leak = Was ein Angriff darin sieht
room-send = Senden
room-less = Weniger
room-more = Mehr
room-your-answer = deine Antwort
room-show = Der Klasse mein Bild zeigen
room-show-hint = Die Klasse sieht es dann neben dem, was davon durchgesickert ist, 32 Pixel breit. Ein Tipp nimmt es zurück.
room-exposed = Es machen so wenige Geräte mit, dass ein anderes deine Zahlen ausrechnen könnte.
room-summed = Der Server erfährt nur die Summe aller Updates, nicht deines. Die Größe eines einzelnen Updates kann niemand prüfen.
room-no-secure-socket = Dieser Browser öffnet die Seite, aber nicht die Verbindung zum Raum. Ältere iPhones und iPads nehmen dafür das eigene Zertifikat des Servers nicht an, und Blocker und VPN können sie verhindern. Schalte diese aus, aktualisiere das Gerät, verwende einen anderen Browser, oder frag die Lehrkraft, ob es eine Adresse gibt, die mit http:// beginnt.
room-no-socket = Die Seite öffnet sich, aber nicht die Verbindung zum Raum: Etwas blockiert WebSockets. Schalte Blocker und VPN für diese Adresse aus, oder verwende einen anderen Browser.
room-hide = Mein Bild zurücknehmen
room-details = Einzelheiten
room-leave = Verlassen
room-forget = Meine Daten löschen und gehen
room-forgetting = Wird gelöscht …
room-forget-hint = „Löschen“ nimmt deine Bilder, die Ergebnisse über dich und deinen Namen vom Server und dein Bild und deinen Namen von dieser Seite. Was das Modell schon gelernt hat, bleibt darin.

status-failed = ✕ Das Training ist stehen geblieben
status-loading = ◌ Das Training lädt …
status-ready = ○ Bereit zum Mitmachen
status-connecting = ◌ Verbinde …
status-at-the-door = ◌ Die Lehrkraft lässt dich gleich herein
status-silent = ▲ Der Server antwortet nicht
status-retrying = ▲ Verbindung weg: nächster Versuch in { $seconds } s
status-closed = ✕ Nicht verbunden
status-waiting = ● Verbunden. Warten auf eine Runde
status-locked = ● Verbunden. Warten auf das Passwort
status-sitting-out = ● Verbunden, aber nicht in den Runden
status-computing = ● Runde { $round }: rechnet …
status-sent = ● Runde { $round }: Zahlen gesendet

connection-failed = Das Training ist stehen geblieben
connection-online = Verbunden
connection-silent = Der Server antwortet nicht
connection-lost = Verbindung verloren
connection-closed = Nicht verbunden

watch-lobby = Du bist drin. Schau auf den Beamer.
watch-promise = Zum Lernen braucht es nur Zahlen von dir: Oben siehst du sie.
watch-guess = Schau auf den Beamer: Wessen Bild ist das?
watch-april = Oben steht, was derselbe Angriff aus deinen Zahlen holt. Hier siehst nur du es.
watch-mask = Ein Teil deiner Zahlen bleibt jetzt hier. Steckt dein Bild noch im Rest?
watch-attackers = Diese Angreifer wissen Verschiedenes. Oben steht, was sie aus deinen Zahlen holen.
watch-patience = Schau auf den Beamer: Der Angreifer lässt sich Zeit.
watch-trade-off = Schau auf den Beamer: Was kostet das Verstecken?
watch-membership = Schau auf den Beamer: Verraten Zahlen, ob ein Foto verwendet wurde?
watch-secret-sum = Schau auf den Beamer: Wie verstecken sich Zahlen in einer Summe?
watch-sum = Schau auf den Beamer: Versteckt eine Summe dein Bild?
watch-dishonest = Schau auf den Beamer: Der Server betrügt mit Absicht, für diese Stunde.
watch-checks = Schau auf den Beamer: Was hilft gegen solche Gewichte?
watch-debrief = Das war die Stunde. Unten kannst du deine Daten löschen.

sees-shown = Die Klasse sieht dein Bild, klein, und was davon durchsickert.
sees-private = Das siehst nur du. Der Beamer zeigt Roboter und Freiwillige.
sees-may-show = Die Klasse darf sehen, was von deinem Bild durchsickert. Das Bild selbst bleibt hier.
sees-sample = Ein Beispielfoto: Die Klasse darf sehen, was davon durchsickert, und die maskierten Zahlen angreifen.
sees-waits = Dein Bild wartet, bis die Lehrkraft es der Klasse zeigt, und ebenso das, was davon durchsickert.
sees-leak-waits = Was von deinem Bild durchsickert, wartet, bis die Lehrkraft es der Klasse zeigt. Das Bild selbst bleibt hier.

leak-own = Was durchsickert
leak-zeros = Liest Lücken als Nullen
leak-aware = Kennt die Lücken

farewell-thanks = Danke fürs Mitlernen.
farewell-score = { $right } von { $judged } Mal hattest du recht.
farewell-closest = Das Meiste, was ein Angriff auf diesem Gerät von deinem Bild sah

known-nothing-left = Bisher haben keine Zahlen dieses Gerät verlassen.
known-recognisable = ✕ Dein Bild sickert durch: Man erkennt es.
known-outlines = ▲ Umrisse deines Bildes sind zu sehen.
known-hidden = ○ Dieser Angriff erkennt dein Bild nicht.
known-searching = ◌ Bisher hat keine Suche dein Bild erkannt.
known-searching-outlines = ◌ Bisher zeigt die Suche Umrisse deines Bildes.
known-unused = Dein Bild wird gerade nicht verwendet: Dieser Tab lernt aus öffentlichen Bildern.
known-stuck = ○ Dieser Angriff findet keinen Weg hinein.
known-none = Bisher hat kein Angriff dein Bild angesehen.
known-only-shown = Bisher haben keine Zahlen dieses Gerät verlassen. Dein Bild ist auf dem Beamer.
known-vote-first = Stimm zuerst ab. Danach zeigt diese Seite, was der Angriff von deinem Bild sieht.

vote-given = Deine Antwort: { $answer }. Du kannst sie ändern, bis das Ergebnis gezeigt wird.
vote-right = ✓ Du hattest recht: { $right }.
vote-wrong = ✕ Du hast { $said } gesagt. Richtig ist { $right }.
vote-missed = Richtig ist { $right }.
vote-answered = Die Klasse hat geantwortet.
vote-said = Du hast { $said } gesagt.
vote-was = Es war { $right }.
vote-wrong-picture = ✕ Du hast { $said } gesagt. Es war { $right }.
vote-both = { $answer } Du hast { $said } gesagt.
vote-unmeasured = Bisher hat kein Angriff das beantwortet.
vote-robots = grau: Roboter, zufällig
vote-only-robots = nur Roboter stimmten ab
vote-count = { $count ->
    [1] 1 Stimme
   *[other] { $count } Stimmen
}
vote-unit = { $count ->
    [1] Stimme
   *[other] Stimmen
}

trainer-no-worker = Dieser Browser kann das Trainingsprogramm nicht starten. Verwende ein aktuelles Chrome, Edge, Firefox oder Safari.
trainer-not-running = Das Trainingsprogramm läuft nicht. Lade die Seite neu.
trainer-silent = Das Trainingsprogramm antwortet nicht. Lade die Seite neu.
trainer-encrypted = Dieser Tab hat das Modell des Raums mit deinem Passwort verschlüsselt und zurückgeschickt.
trainer-not-forgotten = Die Verbindung brach ab, bevor deine Daten gelöscht waren. Tippe noch einmal auf „Löschen“, wenn sie wieder da ist.
trainer-not-loaded = { $loader } ließ sich nicht laden
trainer-stopped = Das Trainingsprogramm ist stehen geblieben: { $reason }. Lade die Seite neu, um es zu starten.
notice-not-asked = Der Raum ist nicht zu erreichen und wurde deshalb nicht gebeten, etwas zu löschen. Versuche es wieder, wenn du online bist.
notice-renamed = Von jetzt an heißt du in diesem Raum { $nickname }.
notice-no-update = In Runde { $round } wurde kein Update gesendet: { $reason }
notice-not-encrypted = Das Modell ließ sich nicht verschlüsseln: { $reason }
notice-not-compared = Die Rekonstruktion von Runde { $round } lässt sich nicht vergleichen: { $reason }
notice-not-shown = Das Bild kann nicht gezeigt werden: { $reason }

## Details

details-this-tab = Dieser Tab
details-round = Runde
details-device = Gerät
details-choosing-device = wird gewählt …
details-sent = Gesendet
details-settings = Modell, Regel und Verteidigung
details-picture = Privates Bild
details-picture-unused = Es bleibt hier und wird gerade nicht verwendet.
details-label = Es bleibt hier. Seine Klasse: { $class }.
details-no-round-closed = Raum: noch keine Runde zu Ende
details-room-loss = Raum: { $loss }, Mittel von { $updates } in Runde { $round }
details-room-no-update = Raum: kein Update in Runde { $round }
details-loss-own = Loss für dein Bild
details-loss-shared = Fehler auf deinen geteilten Bildern
details-without-defence = { $bytes } ohne Verteidigung
details-messages = Nachrichten
details-own-attack = Was dieser Tab in seinem eigenen Update sieht
details-own-attack-hint = Angriffe, hier auf genau das angewandt, was gesendet wurde. Das Ergebnis sieht sonst niemand.
details-own-attack-took = Runde { $round }, { $defence }: { $time }.
details-reconstructed = Was das Relay rekonstruiert hat
details-reconstructed-hint = Das Relay hat dein Update auf mehrere Arten angegriffen. Dieser Tab vergleicht die Ergebnisse mit deinem Bild. Nur die beiden Werte gehen zurück.
details-attacked-round = Runde { $round }
details-as-the-model-sees = Das Bild, wie das Modell es sieht
details-own-picture = dein Bild
details-shared-picture = das geteilte Bild
details-reconstruction = Rekonstruktion
details-several = aus mehreren Bildern gemacht, daher nicht vergleichbar
details-recognisable = ✕ durchgesickert: erkennbar
details-not-yet = ◌ noch nicht erkennbar
details-not-by-this = für diesen Angriff nicht erkennbar; ein anderer sieht vielleicht mehr
details-not-undefended = für diesen Angriff nicht erkennbar, obwohl nichts verteidigt
details-best-order = verglichen mit seinen Teilen in der besten Reihenfolge, die nur dieser Tab kennen kann
details-try-own = Probier dein eigenes Bild
details-try-hint = Frag das Modell des Raums, was ein Bild zeigt. Die Antwort wird hier berechnet: Das Bild verlässt dieses Gerät nicht, und die Antwort sieht sonst niemand.
details-try-private = Mein privates Bild
details-try-drop = oder hierher ziehen
details-try-before = Das Modell des Raums kommt mit der ersten Runde. Dein Bild wartet darauf.
details-try-busy = Warten, bis der Schritt dieser Runde fertig ist …
details-try-asking = Das Modell wird gefragt …
details-tried = Das Bild zum Probieren
details-tried-seen = Dasselbe, wie das Modell es sieht
details-tried-seen-short = wie das Modell es sieht
details-sure = Es ist sicher: { $class }, { $share }
details-thinks = Es meint: { $class }, { $share }
details-guesses = Es rät: { $class }, { $share }
details-asked-before = Das Modell des Raums vor seiner ersten Runde. Es kennt { $classes } Klassen und ordnet jedes Bild einer davon zu; durch Zufall bekommt jede { $chance }.
details-asked-after = Das Modell des Raums nach Runde { $round }. Es kennt { $classes } Klassen und ordnet jedes Bild einer davon zu; durch Zufall bekommt jede { $chance }.
details-trains-on = Dieser Tab lernt aus
details-also-has = Dieser Tab hat außerdem
details-shared-pictures = { $count ->
    [1] 1 geteilten Bild aus { $data }: { $classes }
   *[other] { $count } geteilten Bildern aus { $data }: { $classes }
}
details-unused = Diese Runde lernt stattdessen aus deinem privaten Bild.
details-used = Diese Runde verwendet { $pictures } davon.
details-shared = Geteilte Bilder sind öffentlich: Das Relay hat sie verteilt, { $partition }. Nur dein eigenes Bild ist privat.
details-evenly = gleichmäßig (IID)
details-dirichlet = nach Dirichlet(α = { $alpha })
details-sheet = Einige der geteilten Bilder, nach Klassen geordnet
details-leaving = Was dieses Gerät verlässt
details-nothing-left = Bisher nichts. Nach der ersten Runde siehst du hier, was es war.
details-below = unter null
details-zero = null
details-above = über null
details-masked = von der Verteidigung entfernt
details-ciphertext = Geheimtext
details-ciphertext-hint = verschlüsselt; die anderen Gruppen gehen hinaus, wie sie berechnet wurden
details-sent-update = Runde { $round }: { $content }. { $bytes } gesendet, { $plain } ohne Verteidigung.
details-gradient = { $pictures ->
    [1] der Gradient von 1 Bild
   *[other] der Gradient von { $pictures } Bildern
}
details-weights = { $epochs ->
    [1] die Gewichte nach 1 lokalen Epoche; Bilder: { $pictures }
   *[other] die Gewichte nach { $epochs } lokalen Epochen; Bilder: { $pictures }
}
details-drawing-note = Die Bilder zeigen, wie weit sich die Gewichte von den empfangenen entfernt haben.
details-averaged = { $epochs ->
    [1] { $rule }, 1 lokale Epoche mit Rate { $rate }
   *[other] { $rule }, { $epochs } lokale Epochen mit Rate { $rate }
}
details-computed = { $group }: das Update, wie es berechnet wurde
details-leaves = { $group }: was hinausgeht
details-as-computed = wie berechnet
details-as-sent = wie gesendet
details-zeros = Nullen
details-values = Werte
details-norm = Norm
details-noise = Rauschen zu Signal

step-locked = wartet auf das Passwort
step-sitting-out = nicht in den Runden
step-training = lernt …
step-sent = Update gesendet; der Schritt dauerte { $time }
step-waiting = wartet auf den Start

## The scenes

lobby-title = Start
lobby-headline = Mach mit deinem Handy mit
lobby-line = Scanne den Code oder tippe Adresse und PIN ein.
lobby-say = Heute bringen eure Handys gemeinsam einem Computer etwas bei, und keines muss dafür sein Bild senden.
lobby-ask = Wer hat ein Bild, das nur Freunde sehen dürfen?
lobby-answer = Jede Antwort passt. Sie zeigt, warum ein Bild Schutz brauchen kann.
lobby-pin = PIN
lobby-recorded = Eine aufgezeichnete Stunde
lobby-took-part = Diese haben mitgemacht.
lobby-here = { $count } da
lobby-more = und { $count } weitere
lobby-locked = ⊘ Gesperrt
lobby-let-in = { $count } hereinlassen
lobby-pictures-wait = { $count ->
    [1] 1 Bild wartet auf die Lehrkraft
   *[other] { $count } Bilder warten auf die Lehrkraft
}
lobby-show-pictures = { $count ->
    [1] 1 Bild zeigen
   *[other] { $count } Bilder zeigen
}
lobby-lock = Sperren
lobby-unlock = Öffnen
lobby-remove = { $nickname } entfernen
lobby-code = QR-Code der Adresse daneben
lobby-alone-headline = Eine Klasse in deinem Browser
lobby-alone-line = Roboter lernen auf diesem Gerät. Drücke die Leertaste.
lobby-be-student = Selbst mitmachen
lobby-phone = Handy

promise-title = Versprechen
promise-headline = Dein Bild bleibt. Zahlen gehen.
promise-line-learn = Jedes Handy lernt ein Wort für sein eigenes Bild.
promise-line-send = Jetzt senden die Handys, was sie gelernt haben: Zahlen.
promise-line-stay = Zum Lernen muss kein Handy sein Bild senden.
promise-say = Das ist föderiertes Lernen: Die Handys senden Zahlen, der Server addiert sie, und kein Bild muss dafür ein Handy verlassen.
promise-ask = Ist dein Bild sicher, wenn nur Zahlen hinausgehen?
promise-answer = Dadurch allein nicht. Szene 2 und 3 zeigen: Zahlen können das Bild enthalten.
promise-drawing = Ein Handy sendet Zahlen an einen Server; das Bild bleibt im Handy
promise-phone = Handy
promise-server = Server
promise-numbers = { $count } Zahlen
promise-question = Ist dein Bild sicher, wenn nur Zahlen hinausgehen?
promise-later = Die nächsten Szenen beantworten das.

guess-title = Raten
guess-headline = Wessen Bild ist das?
guess-line-vote = Das hat der Server nur aus Zahlen gemacht. Stimmt ab!
guess-line-votes = Das sind eure Stimmen.
guess-line-told = Die Zahlen haben es verraten.
wall-leak = Was aus dem Update von { $name } durchsickert
guess-line-everybody = Ein Update von jedem Gerät. Das ist darin zu sehen.
guess-say = Der Server hat dieses Bild aus den Zahlen eines Handys berechnet; das Bild selbst hat er dafür nicht verwendet.
guess-ask = Wie können Zahlen wieder zu einem Bild werden?
guess-answer = Die Zahlen hängen von jedem Pixel ab. Bei einem einzigen Bild sind es Gleichungen, die sich lösen lassen.
guess-question = Wessen Bild hat der Server aus Zahlen gemacht?

april-title = APRIL
april-headline = Die Zahlen waren das Bild
april-line-solve = Ein Angriff namens APRIL löst eine Gleichung.
april-line-mask = Die Maske ist an: Die Hälfte der Zahlen bleibt daheim.
april-line-usual = Auch ein Netz der üblichen Art ist undicht.
april-line-positions = Diese Zeile Zahlen stammt von einer einzigen Kachel.
april-line-patches = Diese Tabelle mischt alle Kacheln nach ihren Zeilen.
april-line-patch = Zeile und Tabelle ergeben die Pixel der Kachel.
april-choose = Wählt eine Kachel
april-patch = Kachel { $number }
april-rows = Für jede Kachel eine Zeile
april-row = Die Zeile der gewählten Kachel
april-mixed = Alle Kacheln gemischt, jede nach ihrer Zeile
april-solved = gelöst
april-all = Alle Kacheln, gelöst
april-say = Die Zahlen, die ein Handy sendet, sind eine Gleichung mit einer einzigen Lösung, und die ist das Bild.
april-ask = Was passiert, wenn das Handy die Hälfte der Zahlen behält?
april-answer = APRIL sieht das Bild nicht mehr: Es liest die Lücken als Nullen, also stimmt seine Gleichung nicht. In Szene 5 kommt ein besserer Angreifer.
april-question = Wenn die Hälfte der Zahlen daheim bleibt: Sieht man das Bild noch?

mask-title = Maske
mask-headline = Die Hälfte der Zahlen bleibt daheim
mask-line-own = Bewegt R auf dem Handy, bis euer Bild verschwindet.
mask-line-move = R ist der Teil, der daheim bleibt. Verändert ihn!
mask-line-vote = Ist das Bild jetzt sicher? Stimmt ab!
mask-line-votes = Das sind eure Stimmen.
mask-own-question = Bei welchem R ist dein eigenes Bild weg?
mask-own-median = Die Hälfte von euch hielt bei R = { $rate } oder früher an.
mask-own-nobody = Niemand hat den Regler bewegt.
mask-say = Jedes Handy entscheidet zufällig, welche Zahlen daheim bleiben; dieser Angreifer liest die Lücken als Nullen.
mask-ask = Welches R würde euch reichen?
mask-answer = Für kein R ist bewiesen, dass es reicht. Bei R = 0,5 sieht hier meist mindestens ein Angreifer das Bild.
mask-question = Ist das Bild jetzt sicher?
mask-yes = Ja
mask-no = Nein
mask-slider = R, der Teil, der daheim bleibt, in Prozent
mask-swarm = Die Raten der Klasse, von 0 bis 0,95
mask-unproved = Hier erkennt es kein Angreifer. Sicher ist es damit nicht.
mask-one-sees = Nein: Mindestens ein Angreifer hier erkennt es.

attackers-title = Angreifer
attackers-headline = Die Maske ist kein Geheimnis
attackers-line-zeros = Dieser Angreifer liest die Lücken als Nullen.
attackers-line-knows = Dieser weiß, wo die Lücken sind, und füllt sie.
attackers-line-others = Dein Handy hat fremde Zahlen. Wem gehören sie?
attackers-line-scores = Das sind die besten Angreifer der Klasse.
attackers-line-puzzle = Die Ordnung der Teile ist verborgen. Die Teile nicht.
attackers-line-groups = Mehr Zahlen daheim lassen, wo das Bild steckt.
attackers-say = Der Server muss wissen, welche Zahlen fehlen, um sie zu addieren; also weiß es auch ein besserer Angreifer.
attackers-ask = Eine Verteidigung hält einem Angreifer stand: Was sagt das über den nächsten?
attackers-answer = Nichts. Es zeigt nur, dass dieser Angreifer scheitert.
attackers-question = Der nächste Angreifer kennt die Lücken. Sieht er das Bild?
attackers-whose = Wessen maskierte Zahlen hat dein Handy?

## Das Spiel in Szene 5

contest-waiting = Die Zahlen kommen, wenn die Runde zu Ende ist.
contest-computing = Der Angriff rechnet …
contest-nothing-lent = Für dich gibt es gerade keine Zahlen zum Angreifen.
contest-no-weights = Dieses Handy war in der Runde dieser Zahlen nicht dabei. Darum kann es sie nicht angreifen.
contest-nobody-lends = Erst müssen zwei ihr Bild zeigen und ihre Zahlen verleihen.
contest-leak = Was ein Angriff in fremden maskierten Zahlen sieht
contest-know-gaps = Ich kenne die Lücken
contest-points-hint = Jetzt gefunden: 2 Punkte. Mit den Lücken gefunden: 1 Punkt.
contest-points = { $points ->
    [1] 1 Punkt
   *[other] { $points } Punkte
}
contest-right = { $points ->
    [1] ✓ Du hattest recht: { $owner }. 1 Punkt.
   *[other] ✓ Du hattest recht: { $owner }. { $points } Punkte.
}
contest-guessed = { $count ->
    [1] 1 Handy hat geraten
   *[other] { $count } Handys haben geraten
}
contest-others = { $count ->
    [1] und 1 weitere Person mit ebenso vielen Punkten
   *[other] und { $count } weitere mit ebenso vielen Punkten
}
contest-nobody-played = Niemand hat geraten.
contest-nobody-found = Niemand hat gefunden, wem die Zahlen gehören.
contest-counts = { $before } von { $all } lagen richtig, bevor sie die Lücken kannten, { $after } am Ende; durch Zufall 1 von { $suspects }.

patience-title = Geduld
patience-headline = Raten, vergleichen, wieder raten
patience-line-vote = Nach wie vielen Sekunden sehen wir es? Stimmt ab!
patience-line-guess = Der Computer rät, bis die Zahlen passen.
patience-line-came = Das hat die Suche gefunden.
patience-say = Mit der Hälfte der Zahlen probiert der Computer trotzdem Tausende Bilder und behält, was besser passt.
patience-ask = Was müsste man tun, damit das Raten ein Jahr dauert?
patience-answer = Mehr Zahlen daheim lassen oder mehr Bilder in ein Update mischen. Beides kann richtige Antworten kosten, und eine erfolglose Suche beweist nichts.
patience-question = Nach wie vielen Sekunden sehen wir, wer es ist?
patience-unit = Sekunden
patience-took = { $count ->
    [1] Es dauerte 1 Sekunde.
   *[other] Es dauerte { $count } Sekunden.
}
patience-closest = Am nächsten lag: { $guess }
patience-hidden = Verborgen, bis die Suche es gefunden hat.
patience-seconds = { $count ->
    [1] 1 Sekunde
   *[other] { $count } Sekunden
}
patience-steps = Schritt { $step } von { $all }
patience-scrub = Bilder der Suche, vom ersten bis zum letzten

trade-title = Abwägen
trade-headline = Was kostet das Verstecken?
trade-line-costs = Je mehr daheim bleibt, desto weniger lernt die Klasse.
trade-line-vote = Größeres R versteckt mehr und lernt langsamer. Stimmt ab!
trade-line-votes = Das sind eure Stimmen.
trade-line-run = Jetzt rechnet die Klasse mit diesem R.
trade-say = Alle Spalten haben dasselbe Modell, dasselbe Foto und gleich viele Runden; nur R ist anders. Oben ist, was ein Angreifer sieht, der die Lücken kennt, unten, wie viele Testbilder das Modell richtig benennt. Mit mehr Runden holt R = 0,5 auf.
trade-ask = Welche Spalte würdest du vor einer Patientin vertreten, welche vor einem Arzt?
trade-answer = Es gibt keine richtige Antwort. Ein Krankenhaus muss richtige Antworten gegen das abwägen, was durchsickert, und sagen, wer das entscheidet.
trade-question = Welches R würde euer Krankenhaus nehmen?
trade-unit = %
trade-runs = Die Klasse rechnet mit R = { $rate }.
trade-right = richtig benannt
trade-chance = geraten: { $share }
trade-pending = wird gemessen
trade-none = Hier wird nichts gemessen. Ein Relay misst es: Starte es mit --shadow-room.
trade-seen = Was ein Angreifer, der die Lücken kennt, bei R = { $rate } sieht
trade-setup = Ein Lauf, Runde { $round }: { $robots } Roboter, { $model }, { $pictures } Testbilder
trade-recorded = Ein früherer Lauf, Runde { $round }: { $robots } Roboter, { $model }, { $pictures } Testbilder

member-title = Warst du’s?
member-headline = Wurde dieses Foto verwendet?
member-line-ask = Hier sind die Zahlen eines Handys und ein Foto. Stimmt ab!
member-line-told = Wer das Foto hat, kann die Zahlen fragen.
member-line-stranger = Und dieses? Es gehört jemand anderem.
member-say = Hier berechnet niemand ein Bild: Wer ein Foto schon hat, fragt, ob es verwendet wurde.
member-ask = Wann würde es schaden, wenn man wüsste, dass dein Bild dabei war?
member-answer = Wenn die Daten etwas über dich sagen: ein Foto aus einer Klinik, von einer Demonstration, aus einer Zuflucht.
member-photograph = das Foto
member-seen = Das Foto, wie das Netz es sieht
member-scale = Wie viel vom Foto nicht zu dem passt, was im Update war, auf einer logarithmischen Achse
member-was-in = ◀ war dabei
member-was-not = war nicht dabei ▶
member-this = ● dieses Foto
member-altered = ○ veränderte Kopien davon
member-file = Datei
member-forget = Vergessen
member-yes = ✕ Ja: { $nickname } hat daraus gelernt
member-no = ✓ Nein: { $nickname } hat nicht daraus gelernt
member-no-copy = ◌ Aus dieser Kopie hat { $nickname } nicht gelernt
member-no-copy-hint = Eine Datei wird für das Modell verkleinert. Das Foto selbst kann verwendet worden sein.
member-did = Hat { $nickname } dieses Foto verwendet?
member-question = Wurde dieses Foto verwendet?
member-undecided = ◌ Das lässt sich nicht entscheiden
member-waiting = ◌ Warten auf ein Update
member-silent = ◌ Dieses Update sagt es nicht

secret-title = Geheimsumme
secret-headline = Wie verstecken sich Zahlen?
secret-line-masked = Jedes Gerät addiert Zufall. Der Server bekommt Rauschen.
secret-line-total = In der Summe heben sie sich auf. Die Summe stimmt.
secret-say = Einigt euch laut auf ein Passwort und tippt es in die Handys. Je zwei Geräte vereinbaren Zufallszahlen: Eines addiert sie, das andere zieht sie ab. Der Server erfährt nur die Summe.
secret-ask = Kann die Summe ein Bild verraten?
secret-answer = Ja, bei wenigen Geräten oder mit Gewichten, die der Server fälscht. Die nächsten Szenen zeigen beides.
secret-masked = von { $nickname }
secret-too-few = { $count } Menschen müssen zustimmen, sonst { $count } Roboter.
secret-waiting = Warten auf eine Summe derer, die zugestimmt haben…
secret-more = { $count ->
    [1] und 1 weiteres
   *[other] und { $count } weitere
}

sum-title = Eine Summe
sum-headline = Versteckt eine Summe dein Bild?
sum-line-add = Angenommen, der Server sähe nur die Summe dieser Zahlen.
sum-line-apart = Der Server zerlegt die Summe.
sum-say = In einer Summe sieht niemand die Zahlen eines einzelnen Geräts. Bei wenigen Geräten reicht das nicht.
sum-ask = Wie viele Geräte sollten in einer Summe sein?
sum-answer = Bei diesem Modell trennt dieser Angriff höchstens 11 Bilder. An mehr scheitert er; das beweist nicht, dass sie sicher sind.
sum-mixture = aus der Summe
sum-working = Die Summe wird zerlegt…
sum-tokens = Die Summe wird zerlegt: { $found } von { $all } Stücken gefunden…
sum-found = Zurück: { $found } von { $all } Bildern, { $certain } davon mit Gewissheit, in { $seconds } s
sum-nothing = Aus dieser Summe kam nichts heraus.
sum-too-few = Erst müssen zwei ihr Bild zeigen.

cheat-title = Unehrlich
cheat-headline = Was, wenn der Server betrügt?
cheat-line-aim = Der Server will ein Bild. Dazu braucht er dessen Klasse.
cheat-line-fish = Mit diesen Gewichten ändert nur diese Klasse die Summe.
cheat-say = Der Server sendet manipulierte Gewichte. Alle anderen Bilder addieren null. Die Summe besteht dann aus den Zahlen eines einzigen Bildes. Wand und Handys sagen es, und solche Runden ändern das Modell der Klasse nicht.
cheat-ask = Hilft eine größere Summe?
cheat-answer = Nein. Alle anderen addieren null. Haben mehrere Bilder diese Klasse, lassen die nächsten Runden weniger durch.
cheat-class = Die Zahlen haben die Klasse verraten: { $class }.
cheat-no-class = Warten auf ein einzelnes Update, das die Klasse verrät…

checks-title = Prüfen
checks-headline = Kann dein Handy das bemerken?
checks-line-look = Jedes Gerät sieht sich vor dem Training die Gewichte an.
checks-line-noise = Auch Rauschen hilft gegen solche Gewichte.
checks-say = Die Handys vergleichen die Gewichte mit den letzten und probieren sie an ihrem Bild aus. Sie lassen Runden aus, die manipuliert aussehen. In Schritt 2 prüfen sie nicht. Stattdessen addiert jedes Handy Rauschen. Ein Test mit anderen Bildern zeigt, wie gut das verbirgt: Blindes Raten trifft die Hälfte.
checks-ask = Warum sollte ein Handy einen Server prüfen, dem es vertraut?
checks-answer = Prüfen kostet wenig. Die Handys bemerken es nicht, wenn ein Server die Gewichte langsam verschiebt. Rauschen kostet richtige Antworten.
checks-noticed = { $asked ->
    [1] { $left } von 1 Gerät hat es bemerkt und nichts gesendet.
   *[other] { $left } von { $asked } Geräten haben es bemerkt und nichts gesendet.
}
checks-none-yet = Warten auf eine Runde mit manipulierten Gewichten…
checks-trying = Das Rauschen wird mit anderen Bildern getestet…
checks-tried = Welches von zwei Bildern ist dabei? { $right } von { $trials } richtig geraten.

debrief-title = Fazit
debrief-headline = Was nehmt ihr mit?
debrief-line-vote = Noch einmal, mit Maske: Wessen Bild ist das?
debrief-line-votes = Das sind eure Stimmen.
debrief-line-told = Von hier stammt das Bild.
debrief-line-home = Drei Sätze zum Mitnehmen.
debrief-say = Zahlen können ein Bild sein, eine Maske hilft gegen manche, und es kommt darauf an, wer hinsieht.
debrief-ask = Würdet ihr mit einem eigenen Bild mitmachen?
debrief-answer = Beide Antworten sind in Ordnung. Fragt alle, die Nein sagen, was sich ändern müsste.
debrief-question = Wessen Bild steckt hinter der Maske?
debrief-numbers = Zahlen, die dein Handy verlassen, können dein Bild sein.
debrief-defence = Was einen Angreifer aufhält, hält den nächsten vielleicht nicht auf.
debrief-who = Frag, wer die Zahlen sieht und was er weiß.
debrief-seen = gesehen in „{ $scene }“

level-hidden = verborgen
level-outlines = Umrisse sichtbar
level-recognisable = erkennbar

shot-original = Original
shot-from-numbers = aus Zahlen gemacht
shot-april = APRIL
shot-usual = aus dem üblichen Netz
shot-zeros = liest Lücken als Nullen
shot-aware = kennt die Lücken
shot-pieces = findet die Teile, nicht ihre Ordnung
shot-guesses = wohin das Raten führt

empty-nobody = Noch ist niemand da.
empty-nobody-agreed = Niemand zeigt ein Bild. Roboter würden es tun.
empty-paused = Pause: Es kommt kein Update.
empty-waiting = Warten auf das erste Update …
empty-not-shown = Wem es gehört, zeigt es nicht.
empty-no-picture = Nichts zu sehen.
empty-too-many-numbers = Dieses Modell hat zu viele Zahlen für die Wand.
empty-no-search = Dieses Relay kann nicht suchen.
empty-no-candidate = Noch ist kein Foto gewählt.
empty-no-suspects = Zwei müssen ihr Bild zeigen, bevor die Klasse abstimmen kann.

bins-range = { $from } bis { $to } { $unit }

## Defences on the curve

## The presenter

bar-presenter = Vorführung
bar-scenes = Szenen
bar-next = Weiter
bar-next-title = Nächster Schritt
bar-less-title = Weniger bleibt daheim
bar-more-title = Mehr bleibt daheim
bar-mask = Maske
bar-mask-title = Maske an oder aus
bar-who = Wer
bar-who-title = Nächste freiwillige Person
bar-pause = Pause
bar-run = Los
bar-pause-title = Pause oder weiter
bar-blank = Aus
bar-blank-title = Bühne abdunkeln
bar-notes = Notiz
bar-notes-title = Notizen
bar-expert = Experte
bar-expert-title = Expertenansicht
bar-language-title = Nächste Sprache
bar-say = Sagen:
bar-ask = Fragen:
bar-answer = Antwort:
bar-loses = { $rounds ->
    [1] Diese Szene beginnt mit einem neuen Modell; 1 Runde der Klasse geht verloren.
   *[other] Diese Szene beginnt mit einem neuen Modell; { $rounds } Runden der Klasse gehen verloren.
}
bar-begin = Beginnen (Enter)
bar-stay = Hierbleiben (Escape)

shut-asking = Der Server wird gefragt …
shut-lost = Der Server kennt diese Seite nicht mehr
shut-title = Diese Seite zeigt der Lehrkraft den Raum
shut-open = Öffnen lässt sie sich mit dem Beamer-Link, den das Relay im Terminal ausgegeben hat, oder mit dem Link für die Lehrkraft, der auch die Bedienung bringt. Mit einer neuen Stunde gibt das Relay neue Links aus.
shut-part = Du willst mitmachen? Hier gibst du die PIN ein:
shut-students = die Seite für Lernende

## The recorded lesson

replay-opening = Die Stunde wird geöffnet …
replay-open = Eine aufgezeichnete Stunde öffnen
replay-file = Eine Datei lesson.unmask, die auf dieser Seite bleibt:
replay-nothing = In dieser Datei ist nichts aufgezeichnet.
replay-part = Nur ein Teil dieser Stunde ist abspielbar: { $reason }.
replay-unreadable = Der Browser kann diese Datei nicht lesen: { $error }.
replay-player = Aufgezeichnete Stunde
replay-play = Abspielen
replay-pause = Pause
replay-place = Stelle in der Stunde
replay-time = { $at } von { $length }
replay-slower = Langsamer
replay-faster = Schneller

## The federation

federation-unnamed = Verbund
federation-named = Verbund { $host }
federation-asking = { $name } wird gefragt
federation-lost = { $name }: keine Antwort; der Raum macht allein weiter
federation-idle = { $name }: noch keine Aufgabe
federation-held = { $name } wartet: Der Raum ist angehalten
federation-done = { $count ->
    [1] { $name }: { $done } von 1 Runde hier
   *[other] { $name }: { $done } von { $count } Runden hier
}
federation-round = { $count ->
    [1] { $name }, Runde { $round }: hier { $done } von 1 Runde
   *[other] { $name }, Runde { $round }: hier { $done } von { $count } Runden
}

## Before a lesson

network-button = Netz prüfen
network-good = gut
network-problem = Problem
network-unknown = unbekannt

## The end of a lesson

erase-button = Alles löschen
erase-ask = Das beendet die Stunde und löscht ihr Journal, ihre Aufzeichnung und ihren Schlüssel, und was frühere Stunden im Datenordner hinterließen. Deine Downloads bleiben. Nichts bringt die Stunde zurück.
erase-keep = Behalten
erase-yes = Jetzt alles löschen
erase-done = { $files ->
    [1] 1 Datei ist gelöscht, { $kilobytes } kB. Die Quittung steht in erased.jsonl im Datenordner. Starte das Relay für eine weitere Stunde neu.
   *[other] { $files } Dateien sind gelöscht, { $kilobytes } kB. Die Quittung steht in erased.jsonl im Datenordner. Starte das Relay für eine weitere Stunde neu.
}
