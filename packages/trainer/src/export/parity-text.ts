/**
 * Prose, numbers, code, other scripts and a table, for ordinary and rare tokens. A change makes reports of
 * different releases incomparable.
 */
export const PARITY_TEXT = `The yard lies where the river bends. Twelve tracks run side by side, and at the far end, behind the water tower, an old
signal box leans a little towards the hills. On Monday the 3rd of March, at 6:45 in the morning, the first train of the week came in: forty-one
wagons of gravel, nineteen of timber, and a single green carriage that nobody had asked for.

"Where does that one belong?" asked the shunter.
"Nowhere," said the clerk, and turned a page. "It is on no list. Leave it on track 7 until somebody misses it."

How many wagons stood in the yard that evening? Count them: 41 + 19 + 1 = 61, less the 8 that left with the night train, which makes 53.

def remaining(arrived, departed):
    # Wagons that nobody claims are counted as well.
    total = sum(arrived) - departed
    return max(total, 0)

print(remaining([41, 19, 1], 8))

| track | load   | wagons |
|------:|--------|-------:|
|     1 | gravel |     41 |
|     4 | timber |     19 |
|     7 | none   |      1 |

Die Wagen rollen langsam über die Weiche. Où est la voiture verte ? Зелёный вагон стоит на седьмом пути. 緑の客車は七番線にいます。

In the second week the carriage was gone. Some said that it had been taken to the workshops; others swore that they had seen it pass the bridge
at night, unlit, with its blinds drawn, behind an engine that carried no number. The clerk wrote neither of these into his book. He drew a thin
line through the entry for track 7, blotted it, and added in the margin: "left as it came".
`;
