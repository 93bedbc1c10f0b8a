"""The definitions of ``mini-idm``: families of skeletons, authored for this project.

A family has *phrasings*, bracketed as in the Penn Treebank, and *rows*. In a phrasing ``<young>``
is a word of the concept ``young`` and ``<0>``, ``<1>`` are words of the row's concepts. A row
reads ``answer: concept concept``. One phrasing with one row is a *skeleton*: everything about the
definition is fixed but the choice among synonyms.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """Definitions that are put together in the same way."""

    name: str
    phrasings: tuple[str, ...]
    rows: str

    def table(self) -> list[tuple[str, tuple[str, ...]]]:
        """The rows as ``(answer, concepts)``."""
        cells = (row.partition(":") for row in self.rows.replace("\n", ";").split(";"))
        return [
            (answer.strip(), tuple(concepts.split()))
            for answer, _, concepts in cells
            if answer.strip()
        ]


_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def _sums() -> str:
    pairs = ((a, b) for a in range(1, 10) for b in range(a, 11 - a))
    return ";".join(f"{_NUMBERS[a + b]}: {_NUMBERS[a]} {_NUMBERS[b]}" for a, b in pairs)


def _differences() -> str:
    pairs = ((a, b) for a in range(2, 11) for b in range(1, min(a, 4) + 1))
    return ";".join(f"{_NUMBERS[a - b]}: {_NUMBERS[a]} {_NUMBERS[b]}" for a, b in pairs)


def _steps(by: int) -> str:
    pairs = ((a, a + by) for a in range(1, 10))
    return ";".join(f"{_NUMBERS[b]}: {_NUMBERS[a]}" for a, b in pairs)


FAMILIES = (
    Family(
        "relatives of relatives",
        (
            "(NP (NP the <0>) (PP of (NP your <1>)))",
            "(NP (NP the <0>) (SBAR that (S (NP your <1>) (VP has))))",
        ),
        """
        grandmother: mother mother; grandmother: mother father; grandmother: wife grandfather
        grandfather: father mother; grandfather: father father; grandfather: husband grandmother
        aunt: sister mother; aunt: sister father; aunt: wife uncle; aunt: daughter grandmother
        uncle: brother mother; uncle: brother father; uncle: husband aunt; uncle: son grandfather
        nephew: son brother; nephew: son sister; niece: daughter brother; niece: daughter sister
        cousin: child uncle; cousin: child aunt; cousin: son uncle; cousin: daughter aunt
        grandson: son son; grandson: son daughter
        granddaughter: daughter daughter; granddaughter: daughter son
        mother: mother brother; mother: mother sister; mother: wife father
        father: father sister; father: father brother; father: husband mother
        brother: brother sister; brother: son mother; brother: son father
        sister: sister brother; sister: daughter father; sister: daughter mother
        """,
    ),
    Family(
        "sexes of relatives",
        ("(NP a <0> <1>)", "(NP (NP a <1>) (SBAR that (S (VP is <0>))))"),
        """
        mother: female parent; father: male parent; sister: female sibling; brother: male sibling
        daughter: female child; son: male child; wife: female spouse; husband: male spouse
        """,
    ),
    Family(
        "young animals",
        (
            "(NP a <young> <0>)",
            "(NP (NP the <offspring>) (PP of (NP a <0>)))",
            "(NP (NP a <0>) (SBAR that (S (VP is (ADJP still <young>)))))",
        ),
        """
        puppy: dog; kitten: cat; foal: horse; calf: cow; lamb: sheep; piglet: pig; kid: goat
        chick: hen; duckling: duck; gosling: goose; fawn: deer; cub: bear; cub: lion; tadpole: frog
        cygnet: swan; eaglet: eagle; owlet: owl; joey: kangaroo
        """,
    ),
    Family(
        "sexes of animals",
        ("(NP a <0> <1>)", "(NP (NP a <1>) (SBAR that (S (VP is <0>))))"),
        """
        mare: female horse; ewe: female sheep; sow: female pig; doe: female deer; vixen: female fox
        lioness: female lion; tigress: female tiger; queen: female bee
        stallion: male horse; bull: male cow; ram: male sheep; boar: male pig; stag: male deer
        rooster: male hen; drake: male duck; gander: male goose; drone: male bee
        """,
    ),
    Family(
        "homes of animals",
        (
            "(NP (NP the <home>) (PP of (NP a <0>)))",
            "(NP the place (SBAR where (S (NP a <0>) (VP <lives>))))",
        ),
        """
        stable: horse; kennel: dog; hive: bee; nest: bird; den: bear; burrow: rabbit; sty: pig
        coop: hen; web: spider
        """,
    ),
    Family(
        "groups of animals",
        (
            "(NP (NP a <group>) (SBAR in which (S each (VP is (NP a <0>)))))",
            "(NP (NP a <0>) and (NP its like) (ADVP <together>))",
        ),
        "herd: cow; flock: sheep; pack: wolf; swarm: bee; shoal: fish; pride: lion; colony: ant",
    ),
    Family(
        "sounds of animals",
        (
            "(NP (NP the <sound>) (PP of (NP a <0>)))",
            "(NP the <sound> (SBAR that (S (NP a <0>) (VP makes))))",
        ),
        """
        bark: dog; meow: cat; neigh: horse; moo: cow; bleat: sheep; oink: pig; cluck: hen
        quack: duck; roar: lion; hiss: snake; buzz: bee; croak: frog; hoot: owl; howl: wolf
        """,
    ),
    Family(
        "meat of animals",
        (
            "(NP (NP the <flesh>) (PP of (NP a <0>)))",
            "(NP what (S (NP we) (VP <eat>)) (PP of (NP a <0>)))",
        ),
        "beef: cow; pork: pig; mutton: sheep; venison: deer; poultry: hen",
    ),
    Family(
        "workers",
        (
            "(NP someone (SBAR who (S (VP <0> (NP <1>)))))",
            "(NP (NP the <person>) (SBAR that (S (VP <0> (NP <1>)))))",
        ),
        """
        baker: bakes bread; butcher: sells steaks; chef: cooks food; farmer: grows crops
        florist: sells flowers; gardener: tends plants; gardener: grows flowers
        teacher: teaches pupils; doctor: heals patients; dentist: fixes teeth; vet: heals animals
        author: writes books; poet: writes poems; reporter: writes news; composer: writes music
        singer: sings songs; pianist: plays piano; drummer: plays drums; painter: paints walls
        artist: paints pictures; artist: draws pictures; sculptor: carves statues
        carpenter: shapes wood; mason: shapes stone; smith: shapes iron; builder: builds houses
        architect: designs houses; plumber: fixes pipes; mechanic: fixes cars; cobbler: fixes shoes
        tailor: sews clothes; jeweller: sells gems; barber: cuts hair; driver: drives buses
        pilot: flies planes; sailor: sails ships; admiral: commands ships; general: commands armies
        guard: protects doors; king: rules countries; mayor: rules towns; judge: decides trials
        lawyer: argues cases; thief: steals goods; detective: solves crimes; hunter: hunts animals
        fisherman: catches fish; miner: digs coal; librarian: lends books; banker: lends money
        brewer: brews beer; potter: shapes pots; waiter: serves food; maid: cleans rooms
        coach: trains athletes; postman: delivers letters; astronomer: studies stars
        botanist: studies plants; geologist: studies rocks; historian: studies history
        zoologist: studies animals
        """,
    ),
    Family(
        "places",
        (
            "(NP (NP a <place>) (PP for (S (VP <0> (NP <1>)))))",
            "(NP somewhere (PP for (S (VP <0> (NP <1>)))))",
        ),
        """
        bakery: making bread; library: borrowing books; bookshop: selling books
        school: teaching pupils; hospital: healing patients; prison: keeping prisoners
        zoo: showing animals; garage: keeping cars; cellar: keeping wine; museum: showing relics
        cinema: showing films; theatre: showing dramas; gallery: showing paintings
        bank: keeping money; bank: borrowing money; farm: growing crops; garden: growing flowers
        orchard: growing fruit; vineyard: growing grapes; brewery: making beer; dairy: making cheese
        mint: making coins; pharmacy: selling medicine; wardrobe: keeping clothes
        aquarium: keeping fish; harbour: keeping ships; hangar: keeping planes
        """,
    ),
    Family(
        "tools",
        (
            "(NP (NP a <tool>) (PP for (S (VP <0> (NP <1>)))))",
            "(NP something (PP for (S (VP <0> (NP <1>)))))",
        ),
        """
        hammer: hitting nails; saw: cutting wood; scissors: cutting paper; razor: cutting hair
        knife: cutting bread; pen: writing letters; spade: digging soil; needle: sewing cloth
        clock: measuring time; broom: sweeping dust; telescope: seeing stars; key: opening locks
        """,
    ),
    Family(
        "opposites",
        ("(ADJP <not> <0>)", "(NP (NP the <opposite>) (PP of (ADJP <0>)))"),
        """
        hot: cold; cold: hot; big: small; small: big; happy: sad; sad: happy; rich: poor; poor: rich
        strong: weak; weak: strong; fast: slow; slow: fast; wet: dry; dry: wet; hard: soft
        soft: hard; full: empty; empty: full; clean: dirty; dirty: clean; high: low; low: high
        early: late; late: early; loud: quiet; quiet: loud; brave: afraid; afraid: brave
        wise: foolish; foolish: wise; thick: thin; thin: thick; long: short; short: long
        alive: dead; dead: alive; open: shut; shut: open; sweet: bitter; bitter: sweet
        light: heavy; heavy: light; bright: dark; dark: bright; sharp: blunt; blunt: sharp
        safe: dangerous; dangerous: safe; cheap: expensive; expensive: cheap; kind: cruel
        cruel: kind; rough: smooth; smooth: rough
        """,
    ),
    Family(
        "degrees",
        ("(ADJP <very> <0>)", "(ADJP so <very> <0>)"),
        """
        boiling: hot; freezing: cold; huge: big; tiny: small; delighted: happy; miserable: sad
        ancient: old; filthy: dirty; spotless: clean; soaked: wet; furious: angry; starving: hungry
        exhausted: tired; terrified: afraid; gorgeous: beautiful; hilarious: funny; delicious: tasty
        deafening: loud; dazzling: bright
        """,
    ),
    Family("sums", ("(NP (NP the <sum>) (PP of (NP <0> and <1>)))",), _sums()),
    Family("differences", ("(NP <0> <less> <1>)",), _differences()),
    Family(
        "next numbers",
        (
            "(NP (NP the number) (PP <after> (NP <0>)))",
            "(NP (NP what comes) (PP <after> (NP <0>)))",
        ),
        _steps(1),
    ),
    Family("numbers before", ("(NP (NP the number) (PP <before> (NP <0>)))",), _steps(-1)),
    Family(
        "doubles",
        ("(NP <twice> <0>)",),
        "two: one; four: two; six: three; eight: four; ten: five",
    ),
)
