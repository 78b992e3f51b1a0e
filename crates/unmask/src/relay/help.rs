//! The part of `unmask relay --help` after the arguments.

pub(super) const EXAMPLE: &str = "\
Defences (--defence): what each client does to its update before it leaves the device

    none                                   the plain update: the attacks show what it leaks
    fixed-position                         the position embedding is not updated
    random-binary:0.5                      drops each value with probability R = 0.5, with a new mask for each client
                                           and round
    random-binary:patch=0.95,pos=0.95,0.2  R per parameter group: patch, pos, attn, mlp, norm, head; the last number is
                                           for all other groups
    frozen-binary:0.5                      one mask for all clients and rounds: the values it drops are never trained
    gaussian:eps=4,delta=1e-5,clip=0.5     clips to an L2 norm, then adds Gaussian noise; the projector says what this
                                           really guarantees
    gaussian:eps=4,delta=0.5,unclipped=0.5 the same noise without clipping, as the paper prints it: guarantees nothing
    encrypted                              embeddings under a key that the students derive from a passphrase; a client
                                           encrypts the relay's model first
    encrypted:keyed                        the same, but a client also creates the model; the relay never sees
                                           its plain embeddings

Rules (--rule): what a client computes and how the relay uses it

    fedsgd                                 the client sends the gradient of one batch; the relay takes the step
                                           (--optimiser)
    fedavg:epochs=2,rate=0.05              the client trains this many epochs on its pictures at this rate; the relay
                                           averages the weights by number of pictures

The optimisers of fedsgd (--optimiser) are sgd:0.1, which the papers use, and adam:0.001, which learns faster. Adam is
not linear: it cannot step on encrypted gradients.

Shared pictures (--data): what clients can train on instead of each student's private picture. A room starts with the
private pictures (--train-on); the teacher can switch.

    generated                              ten kinds of shapes drawn from a seed: nothing to download
    cifar10                                CIFAR-10, which `unmask data cifar10` fetches
    folder:PATH                            your pictures, in a subfolder for each class; a fifth of them is held out

The training pictures are divided into --seats shards of at most --shard pictures. Shards belong to seats, because
clients come and go: the first client to join takes shard 1, the second shard 2, and after the last shard it starts
over.

    iid                                    every shard has the same mix of classes (--partition)
    dirichlet:0.3                          the smaller the number, the fewer classes a shard has

Shards are public: the relay has them too. After each round the model is tested on held-out pictures of the same data.

Examples

    unmask relay --open                                a lesson, with the teacher's page opened on this machine
    unmask relay --check                               before class: what a phone would meet in this network
    unmask relay --headless 4 --start                  a room that trains immediately, with four headless clients
    unmask relay --defence random-binary:0.5           masks from the first round on
    unmask relay --rule fedavg:epochs=2,rate=0.05      clients send weights, not gradients
    unmask relay --defence encrypted --optimiser sgd:0.1
                                                       students agree on a passphrase and type it into their tabs
    unmask relay --model vit_lab_patch4_32 --optimiser sgd:0.1
    unmask relay --data cifar10 --train-on shared --batch 16 --partition dirichlet:0.3 --headless 4 --start
                                                       four headless clients learn from skewed shards
    unmask relay --data cifar10 --weights pretrained   start from a model that was trained on CIFAR-10

The teacher can change defence, rule, optimiser, batch size and pictures at any time. A change takes effect in the next
round. Students open the printed link, or type an address and the PIN. A second machine shows the room with the
projector link; the controls need the teacher link. Browsers do not warn if you give --cert and --key. --https-only
keeps eavesdroppers on the network out. Set RUST_LOG=debug to log more.";
