const WIDTH = 640;
const HEIGHT = 360;
const MARGIN = { left: 56, right: 20, top: 40, bottom: 44 };

const COLOURS = ['#2563eb', '#d97706', '#059669', '#9333ea'];

/**
 * Line chart of the mean reward by step, 0 to 1 on the vertical axis, as a self-contained SVG.
 * @param runs one line each, all of the same length
 */
export function rewardPlot(runs: readonly (readonly number[])[], title: string): string {
  const numSteps = Math.max(...runs.map((rewards) => rewards.length));
  const plotWidth = WIDTH - MARGIN.left - MARGIN.right;
  const plotHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
  const x = (step: number) => MARGIN.left + (step / Math.max(1, numSteps - 1)) * plotWidth;
  const y = (reward: number) => MARGIN.top + (1 - reward) * plotHeight;
  const grid = [0, 0.25, 0.5, 0.75, 1].map(
    (reward) =>
      `<line x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${y(reward)}" y2="${y(reward)}" stroke="#ddd"/>` +
      `<text x="${MARGIN.left - 8}" y="${y(reward) + 4}" text-anchor="end">${reward}</text>`,
  );
  const ticks = Array.from({ length: numSteps }, (_, step) =>
    step % Math.ceil(numSteps / 16) === 0
      ? `<text x="${x(step)}" y="${HEIGHT - MARGIN.bottom + 18}" text-anchor="middle">${step}</text>`
      : '',
  );
  const lines = runs.map((rewards, run) => {
    const colour = COLOURS[run % COLOURS.length];
    const points = rewards.map((reward, step) => [x(step).toFixed(1), y(reward).toFixed(1)] as const);
    const dots = points.map(([left, top]) => `<circle cx="${left}" cy="${top}" r="3" fill="${colour}"/>`);
    return `<polyline points="${points.join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>\n${dots.join('\n')}`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="#333">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>
<text x="${MARGIN.left}" y="22" font-size="15">${title}</text>
${grid.join('\n')}
${ticks.join('\n')}
<text x="${WIDTH / 2}" y="${HEIGHT - 8}" text-anchor="middle">step</text>
${lines.join('\n')}
</svg>
`;
}
