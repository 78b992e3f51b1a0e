//! What `unmask relay --help` says besides the arguments.

pub(super) const EXAMPLE: &str = "\
Defences (--defence), what each client does to its update before it leaves the device

    none                                   the plain update: the attacks show what it gives away
    fixed-position                         the position embedding is not updated
    random-binary:0.5                      each value is dropped with probability R = 0.5, under a mask of its own for
                                           each client and round
    random-binary:patch=0.95,pos=0.95,0.2  R per parameter group: patch, pos, attn, mlp, norm, head; the last number is
                                           for all the others
    frozen-binary:0.5                      one mask for all clients and rounds: what it drops is never trained
    gaussian:eps=4,delta=1e-5,clip=0.5     clipped to an L2 norm, then Gaussian noise; the projector says what that
                                           really guarantees
    gaussian:eps=4,delta=0.5,unclipped=0.5 the same noise without clipping, as the paper prints it: guarantees nothing
    encrypted                              embeddings under a key that the students make from a passphrase; a client
                                           encrypts the relay's model first
    encrypted:keyed                        the same, but a client also makes the model, so that the relay never sees it

Rules (--rule), what a client computes and what the relay makes of it

    fedsgd                                 one gradient of one batch goes up; the relay takes the step (--optimiser)
    fedavg:epochs=2,rate=0.05              clients train so many passes over their pictures at that rate; their weights
                                           are averaged by number of pictures

The steps of fedsgd (--optimiser) are sgd:0.1, which the papers use, and adam:0.001, which learns faster. Adam is not
linear: it cannot step on encrypted gradients.

Pictures (--data), what clients train on besides each student's private picture; the teacher switches between the two
(--train-on), and a room begins with the private ones

    generated                              ten kinds of shapes drawn from a seed: nothing to download
    cifar10                                CIFAR-10, which `unmask data cifar10` fetches
    folder:PATH                            any pictures, in a subfolder for each class; a fifth of them is held out

The pictures to train on are divided among --seats shards of at most --shard pictures. Clients come and go, so that the
shards belong to seats: the first client to join takes shard 1, the second shard 2, and when all are taken it starts over.

    iid                                    every shard has all classes alike (--partition)
    dirichlet:0.3                          the smaller the number, the fewer classes a shard has

Shards are public: the relay has them too. After each round the model is tried on held-out pictures of the same data.

Examples

    unmask relay --open                                a lesson, with the projector's page opened here
    unmask relay --headless 4 --start                  a room that trains at once, with four clients of its own
    unmask relay --defence random-binary:0.5           masks from the first round on
    unmask relay --rule fedavg:epochs=2,rate=0.05      weights go up, not gradients
    unmask relay --defence encrypted --optimiser sgd:0.1
                                                       students agree on a passphrase and type it into their tabs
    unmask relay --model vit_lab_patch4_32 --optimiser sgd:0.1
    unmask relay --data cifar10 --train-on shared --batch 16 --partition dirichlet:0.3 --headless 4 --start
                                                       four clients of this machine learn from skewed shards
    unmask relay --data cifar10 --weights pretrained   the model has been trained on CIFAR-10 before

The teacher can change defence, rule, optimiser, batch size and pictures at any time; the change holds from the next
round on.
Students open the link printed, or type an address and the PIN; a second machine shows the room by the projector link, and
the controls need the teacher link. With --cert and --key browsers do not warn; --https-only keeps out whoever listens on
the network. RUST_LOG=debug says more.";
