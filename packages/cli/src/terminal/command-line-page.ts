import type { Command } from 'commander';

/** Columns of the help: as many as a page shows without scrolling. */
const HELP_COLUMNS = 100;

/** Markdown of a page with every command and its help, as printed by the program. */
export function commandLinePage(commands: readonly Command[]): string {
  const list = commands.map((command) => `| [\`${command.name()}\`](#${command.name()}) | ${command.summary()} |`);
  return `# Command line

Run \`npx trainyard COMMAND\` in the folder of the clone, or in a folder where the tarball is installed. This page is the output of \`--help\`.

| command | summary |
|---|---|
${list.join('\n')}

${commands.map((command) => helpOf(command)).join('\n')}`;
}

function helpOf(command: Command, above: readonly string[] = [], depth = 2): string {
  const name = [...above, command.name()];
  const text = command.configureHelp({ helpWidth: HELP_COLUMNS }).helpInformation().trim();
  const below = command.commands
    .filter((child) => child.name() !== 'help')
    .map((child) => helpOf(child, name, depth + 1));
  return `${'#'.repeat(depth)} ${name.join(' ')}\n\n\`\`\`text\n${text}\n\`\`\`\n\n${below.join('\n')}`;
}
