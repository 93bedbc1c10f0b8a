"""The words of the shipped miniature world, authored for this project.

A *concept* is a set of words that may stand for each other in the world's definitions. Its *seen*
words occur in the training split of ``mini-idm``; its *reserve* words occur in no split of any
shipped task, so that putting a reserve word for a seen one is a substitution that the task's
training never showed. Every word belongs to one concept only; a concept is named by its first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

# One concept a line: seen words | reserve words.
_WORDS = """
mother mum mom | mama
father dad daddy | papa
brother bro | bruv
sister sis | sissy
son boy | lad
daughter girl | lass
child youngster | kid
wife missus | bride
husband hubby | groom
uncle unc | nuncle
aunt auntie | aunty
grandmother granny gran | nana
grandfather grandpa gramps | grandad
parent guardian | begetter
sibling kin | relation
spouse partner | consort
female feminine womanly | ladylike
male masculine manly | manful
young baby newborn | infant
offspring progeny | issue
home house shelter dwelling | abode
lives sleeps dwells | resides
group crowd band | bunch
together jointly | collectively
sound noise cry | call
flesh meat | muscle
eat consume | devour
dog hound canine | pooch
cat feline pussycat | kitty
horse steed equine | nag
cow bovine ox | steer
sheep ovine |
pig swine hog | porker
goat caprine |
hen fowl | biddy
duck waterfowl mallard |
goose barnacle |
deer elk hart | moose
bear grizzly | bruin
lion leo |
tiger panther |
fox reynard |
frog toad | batrachian
swan cob |
eagle falcon | raptor
owl strix |
kangaroo wallaby | roo
bee bumblebee honeybee | wasp
wolf lobo |
fish trout salmon | herring
bird sparrow finch | robin
rabbit bunny hare | coney
spider tarantula arachnid |
ant termite | emmet
snake serpent viper | adder
person human | individual
bakes kneads toasts | browns
sells trades vends | peddles
cooks fries boils | stews
grows raises cultivates | farms
tends waters weeds | nurtures
teaches instructs educates | tutors
heals cures treats | remedies
fixes repairs mends | patches
writes pens drafts | scribbles
sings hums chants | croons
plays performs strums | executes
paints brushes colours | daubs
draws sketches etches | doodles
carves chisels sculpts | whittles
shapes forms works | moulds
builds erects constructs | assembles
designs plans devises | conceives
sews stitches knits | darns
cuts trims clips | shears
drives steers wheels | motors
flies soars glides | jets
sails rows paddles | cruises
commands leads directs | heads
protects guards watches | shields
rules governs reigns | administers
decides settles resolves | determines
argues pleads debates | disputes
steals robs pinches | pilfers
solves unravels cracks | deciphers
hunts chases stalks | pursues
catches hooks traps | nets
digs mines extracts | excavates
lends loans issues | advances
brews ferments distils | malts
serves brings carries | fetches
cleans scrubs sweeps | mops
trains drills coaches | exercises
studies examines explores | researches
delivers sends hands | conveys
bread loaves buns | rolls
food meals dishes | fare
steaks sausages bacon | ham
crops wheat corn | grain
flowers roses blooms | blossoms
plants shrubs herbs | greenery
pupils learners classes | schoolchildren
patients invalids | sufferers
teeth fangs molars | incisors
animals beasts creatures | fauna
books novels volumes | tomes
poems verses rhymes | sonnets
news headlines reports | bulletins
music melodies symphonies | harmonies
songs tunes ballads | airs
piano keyboard | clavier
drums tambourines bongos | percussion
walls fences ceilings | facades
pictures portraits canvases | images
statues busts figures | effigies
wood timber planks | lumber
stone marble granite | slate
iron steel brass | alloy
houses buildings towers | edifices
pipes taps drains | plumbing
cars engines vans | automobiles
shoes boots sandals | footwear
clothes garments dresses | apparel
gems jewels diamonds | rubies
hair beards whiskers | tresses
buses trams trolleys | minibuses
planes jetliners aircraft | airliners
ships boats vessels | galleons
armies troops regiments | battalions
doors gates entrances | portals
countries nations kingdoms | realms
towns cities villages | boroughs
trials verdicts | lawsuits
cases claims appeals | suits
goods wallets purses | valuables
crimes murders mysteries | felonies
coal ore gold | minerals
money cash funds | currency
beer ale lager | stout
pots jars vases | urns
rooms floors halls | chambers
athletes runners sportsmen | sprinters
stars planets galaxies | comets
rocks crystals boulders | pebbles
history past antiquity | yesteryear
letters parcels mail | packages
place spot site | venue
keeping storing holding | housing
making producing creating | crafting
selling trading offering | vending
showing presenting displaying | exhibiting
growing raising cultivating | farming
teaching instructing educating | tutoring
healing curing treating | remedying
borrowing lending loaning | renting
films movies | flicks
dramas comedies musicals | tragedies
paintings drawings frescoes | watercolours
medicine pills drugs | remedy
fruit apples pears | cherries
grapes vines | raisins
cheese butter cream | yogurt
coins pennies dimes | nickels
wine champagne port | sherry
prisoners convicts captives | inmates
relics fossils treasures | artefacts
tool device instrument | implement
hitting pounding banging | whacking
cutting slicing chopping | severing
writing scribbling | jotting
digging excavating | burrowing
sewing stitching | darning
measuring timing | gauging
sweeping brushing | mopping
seeing viewing | beholding
opening unlocking | unsealing
nails tacks | rivets
paper notes | parchment
soil earth | dirt
time hours minutes | seconds
dust crumbs | grime
locks padlocks | bolts
cloth fabric | textile
not never hardly | scarcely
opposite reverse contrary | antithesis
very extremely really | awfully
hot warm heated | torrid
cold cool chilly | frosty
big large sizeable | hefty
small little slight | petite
happy glad cheerful | merry
sad unhappy gloomy | sorrowful
rich wealthy affluent | moneyed
poor needy penniless | destitute
strong powerful mighty | muscular
weak feeble frail | puny
fast quick rapid | speedy
slow sluggish unhurried | plodding
wet damp moist | soggy
dry arid parched | waterless
hard firm rigid | stony
soft squashy spongy | downy
full filled packed | crammed
empty vacant hollow | void
clean pure washed | hygienic
dirty soiled muddy | grimy
high tall lofty | elevated
low shallow lowly | squat
early prompt premature | punctual
late delayed overdue | belated
loud noisy blaring | thunderous
quiet silent hushed | noiseless
brave bold fearless | courageous
afraid scared fearful | frightened
wise clever sensible | sage
foolish silly stupid | daft
thick broad wide | bulky
thin slim narrow | slender
long lengthy extended | prolonged
short brief curt | stubby
old aged elderly | senile
alive living breathing | animate
dead deceased lifeless | departed
open unlocked ajar | unsealed
shut closed sealed | fastened
sweet sugary syrupy | honeyed
bitter sour acrid | tart
light airy weightless | feathery
heavy weighty leaden | ponderous
bright shining luminous | radiant
dark dim unlit | murky
sharp pointed keen | jagged
blunt dull rounded | edgeless
safe secure harmless | unthreatening
dangerous risky unsafe | perilous
cheap inexpensive budget | economical
expensive costly pricey | exorbitant
kind gentle caring | considerate
cruel mean vicious | brutal
rough coarse bumpy | craggy
smooth even polished | sleek
angry cross annoyed | irate
hungry unfed peckish | ravenous
tired sleepy weary | drowsy
beautiful pretty lovely | handsome
funny amusing comical | humorous
tasty savoury flavourful | appetising
sum total | aggregate
less minus | without
after following | succeeding
before preceding | ahead
twice double | doubly
one 1 |
two 2 |
three 3 |
four 4 |
five 5 |
six 6 |
seven 7 |
eight 8 |
nine 9 |
ten 10 |
"""


@dataclass(frozen=True)
class Synonyms:
    """The words of one concept: those of the training data, and those kept from it."""

    seen: tuple[str, ...]
    reserve: tuple[str, ...]


@cache
def thesaurus() -> Mapping[str, Synonyms]:
    """Every concept of the shipped world, by its name.

    Numbers and a few animals have no reserve word: English has none that would be understood.
    """
    table: dict[str, Synonyms] = {}
    for line in _WORDS.strip().splitlines():
        seen, _, reserve = line.partition("|")
        words = seen.split()
        table[words[0]] = Synonyms(tuple(words), tuple(reserve.split()))
    return MappingProxyType(table)


@cache
def reserve_words() -> Mapping[str, tuple[str, ...]]:
    """Seen word → the reserve words that may stand for it; words without any are left out."""
    concepts = thesaurus().values()
    return MappingProxyType(
        {word: one.reserve for one in concepts for word in one.seen if one.reserve}
    )
