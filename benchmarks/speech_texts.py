"""Texts of the speech benchmark: plain English of three lengths.

They have no numbers and no names that could be spelt in two ways.
"""

from __future__ import annotations

SHORT = (
    "The ferry left the harbour before sunrise, and only a handful of passengers stood on the deck. "
    "A cold wind came from the north, but nobody wanted to go inside."
)
MEDIUM = (
    "My grandmother kept bees behind the old barn for most of her life. Every spring she walked along the hives, "
    "lifted the wooden lids and looked inside without any gloves. She said that bees can tell when a person is afraid. "
    "In summer we carried the heavy frames into the kitchen and turned them by hand until the honey ran out. The whole "
    "house smelled of wax and flowers. We filled the jars at the table, wiped them with a damp cloth and wrote the "
    "month on every label. Some of the jars went to the neighbours, and some were sold at the market on Saturday "
    "morning. In autumn she fed the bees with sugar water and wrapped the hives in straw. When the snow came, she put "
    "her ear against the wood and listened. If she heard a quiet humming, she smiled and walked back to the stove."
)
LONG = (
    "Building a small boat is a slow and patient kind of work. You begin with a drawing, and you look at it for a long "
    "time before you touch any wood. The lines on the paper must be true, because every mistake grows larger when it "
    "is cut into a plank. Most people start with the frame. They lay the keel on strong blocks, and they check again "
    "and again that it is straight. After that the ribs are set in place, one after the other, from the middle towards "
    "both ends. At this point the boat looks like the skeleton of a large fish. "
    "The planks come next. Fresh wood bends easily when it is warm and wet, so the builder keeps a long box full of "
    "steam beside the workshop. A plank stays in the steam until it is soft. Then two people run with it to the boat, "
    "press it against the ribs and hold it with clamps before it cools. There is no time to talk. When the last plank "
    "is fixed, everybody sits down on the floor and drinks a cup of tea. "
    "Water finds every gap, however small. Therefore the seams between the planks are filled with cotton and covered "
    "with a thick paste. The builder taps the cotton into the seam with a wooden hammer and listens to the sound. A "
    "full seam sounds clear and hard, while an empty one sounds dull. Old builders say that they can hear a leak "
    "before it happens. "
    "Paint protects the wood from sun and salt. The first coat sinks into the grain and almost disappears. The second "
    "coat begins to shine, and the third one makes the boat look finished. Many owners choose white, because it stays "
    "cool in the summer. Others like dark green or deep blue, although these colours show every scratch. Inside, the "
    "floor is often left without paint, so that wet feet do not slip. "
    "On the day of the launch the whole village comes down to the beach. Children carry small flags, and somebody "
    "brings a basket of bread and cheese. The boat is rolled over round logs until the water lifts it. For a moment "
    "nobody breathes. Then the boat floats, level and light, and the people begin to cheer. The builder walks along "
    "the shore with wet trousers and looks for drops of water inside the hull. A little water is normal, because the "
    "wood must first drink and swell. By the evening the seams are tight, and the new owner rows across the bay. "
    "Taking care of a boat never really ends. In winter it rests under a roof, and mice try to build their nests in "
    "the sails. In spring the old paint is rubbed away, and the work begins again. Some boats are older than the "
    "oldest people in the village. Their planks have been changed so many times that hardly any of the first wood is "
    "left. Still, everyone agrees that it is the same boat, because it has kept its name, its shape and its stories."
)
TEXTS = {"short": SHORT, "minute": MEDIUM, "long": LONG}
