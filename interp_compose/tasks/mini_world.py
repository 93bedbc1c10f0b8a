"""The words of the shipped miniature world, authored for this project.

A *concept* is a set of words that may stand for each other in the world's definitions. The
*seen* words occur in the training split of ``mini-idm``; the *reserve* words occur in no split
of any task, so that replacing a seen word by a reserve one is a substitution nobody trained for.
Every word belongs to one concept only, and a concept is named by its first word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

# concept (the first word), its other seen words | its reserve words
_WORDS = """
mother mum mom | mama
father dad daddy | papa
brother bro | bruv
sister sis | sissy
son boy | lad
daughter girl | lass
child youngster | bairn
wife bride missus | helpmate
husband groom hubby | hubbie
uncle unc | nuncle
aunt auntie | tante
grandmother granny gran | nana
grandfather grandpa gramps | grandad
parent guardian | begetter
sibling kin | relation
spouse partner | consort
female feminine womanly | ladylike
male masculine manly | manful

young baby newborn | infant
offspring progeny litter | spawn
grown adult mature | matured
home house shelter | abode
lives sleeps dwells | resides
group crowd band | throng
many several countless | numerous
sound noise cry | utterance
makes produces gives | yields
meat flesh | carnage
dog hound canine | pooch
cat feline puss | kitty
horse steed equine | nag
cow bovine ox | kine
sheep ovine muttonhead | woolback
pig swine hog | porker
goat billy caprine | nanny
chicken fowl biddy | birdie
duck waterfowl mallard | quacker
goose graylag honker | geese
deer elk hart | venery
bear bruin grizzly | ursine
lion leo | simba
tiger bengal | shere
fox reynard | foxy
frog toad | batrachian
swan cob | swanling
eagle erne | raptor
owl strix | owly
kangaroo roo wallaby | marsupial
bee bumblebee honeybee | apian
wolf lobo | lupine
fish trout salmon | herring
bird songbird sparrow | finch
rabbit bunny hare | coney
spider tarantula arachnid | spinner
ant termite emmet | pismire
snake serpent viper | adder

someone somebody | anybody
person worker human | individual
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
draws sketches pictures | doodles
carves chisels sculpts | whittles
shapes forms works | moulds
builds erects constructs | assembles
designs plans devises | drafted
sews stitches knits | darns
cuts trims clips | shears
drives steers wheels | motors
flies soars glides | aviates
sails rows paddles | boats
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
crops wheat corn | grain
flowers roses blooms | blossoms
plants shrubs herbs | greenery
pupils learners classes | schoolchildren
patients sick wounded | invalids
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
portraits pictured canvases | images
statues busts figures | effigies
wood timber planks | lumber
stone marble granite | rock
metal iron steel | alloy
buildings houses towers | edifices
pipes taps drains | plumbing
cars engines autos | automobiles
shoes boots sandals | footwear
clothes garments dresses | apparel
gems jewels diamonds | rubies
hair beards whiskers | locks
buses coaches_ vans | lorries
planes jets aircraft | airliners
ships boats_ vessels | galleons
armies troops regiments | battalions
doors gates entrances | portals
countries nations kingdoms | realms
towns cities villages | boroughs
trials disputes_ verdicts | lawsuits
cases claims appeals | actions
goods wallets purses | valuables
crimes murders mysteries | felonies
coal ore gold | minerals
money cash funds | currency
beer ale lager | stout
pots jars vases | urns
rooms floors halls | chambers
athletes runners players | sportsmen
stars planets galaxies | comets
rocks minerals_ crystals | boulders
history past antiquity | yesteryear
letters parcels mail | post
"""
