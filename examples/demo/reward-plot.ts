const WIDTH = 640;
const HEIGHT = 360;
const MARGIN = { left: 56, right: 20, top: 40, bottom: 44 };

/** A line chart of the mean reward by step, 0 to 1 on the vertical axis, as a self-contained SVG. */
export function rewardPlot(rewards: readonly number[], title: string): string {
  const plotWidth = WIDTH - MARGIN.left - MARGIN.right;
  const plotHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
  const x = (step: number) => MARGIN.left + (step / Math.max(1, rewards.length - 1)) * plotWidth;
  const y = (reward: number) => MARGIN.top + (1 - reward) * plotHeight;
  const grid = [0, 0.25, 0.5, 0.75, 1].map(
    (reward) =>
      `<line x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${y(reward)}" y2="${y(reward)}" stroke="#ddd"/>` +
      `<text x="${MARGIN.left - 8}" y="${y(reward) + 4}" text-anchor="end">${reward}</text>`,
  );
  const ticks = rewards.map((_, step) =>
    step % Math.ceil(rewards.length / 16) === 0
      ? `<text x="${x(step)}" y="${HEIGHT - MARGIN.bottom + 18}" text-anchor="middle">${step}</text>`
      : '',
  );
  const points = rewards.map((reward, step) => `${x(step).toFixed(1)},${y(reward).toFixed(1)}`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="#333">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>
<text x="${MARGIN.left}" y="22" font-size="15">${title}</text>
${grid.join('\n')}
${ticks.join('\n')}
<text x="${WIDTH / 2}" y="${HEIGHT - 8}" text-anchor="middle">step</text>
<polyline points="${points.join(' ')}" fill="none" stroke="#2563eb" stroke-width="2.5"/>
${points.map((point) => `<circle cx="${point.split(',')[0]}" cy="${point.split(',')[1]}" r="3.5" fill="#2563eb"/>`).join('\n')}
</svg>
`;
}
