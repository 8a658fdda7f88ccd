import { Argument, type Command } from 'commander';

import { UsageError } from '../terminal/command-error.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import type { JsonOption } from '../terminal/service-connection.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

interface Words {
  /** Words so far, e.g. `trainyard jobs`. */
  readonly path: readonly string[];
  readonly commands: readonly { name: string; summary: string }[];
  readonly options: readonly { flag: string; summary: string; takesValue: boolean; choices: readonly string[] }[];
}

/** `trainyard completion`: completions of the other commands for a shell. */
export function completionCommand(): Command {
  const command = newCommand('completion', 'print the completion script for a shell')
    .addArgument(new Argument('[SHELL]', 'whose completions').choices(SHELLS))
    .option('--json', 'for other shells: print JSON, [{"path", "commands", "options"}], one entry per command')
    .action((shell: Shell | undefined, { json: isJson }: JsonOption) => {
      if ((shell === undefined) === (isJson === undefined))
        throw new UsageError(`completion takes a shell (${SHELLS.join(', ')}), or --json for other shells`);
      const program = command.parent;
      if (program === null) return;
      if (shell === undefined) printJson(wordsOf(program));
      else process.stdout.write(SCRIPTS[shell](wordsOf(program)));
    });
  return withExamples(command, [
    'source <(trainyard completion bash)  # in ~/.bashrc',
    'source <(trainyard completion zsh)  # in ~/.zshrc, after compinit',
    'trainyard completion fish > ~/.config/fish/completions/trainyard.fish',
    'trainyard completion --json | jq \'.[].path | join(" ")\'',
  ]);
}

/** Words of every command of a program. */
function wordsOf(command: Command, above: readonly string[] = []): Words[] {
  const path = [...above, command.name()];
  const help = command.createHelp();
  const commands = help.visibleCommands(command);
  const options = help.visibleOptions(command).flatMap((option) =>
    option.long === undefined
      ? []
      : [
          {
            flag: option.long,
            summary: option.description,
            takesValue: option.required || option.optional,
            choices: option.argChoices ?? [],
          },
        ],
  );
  const own = { path, commands: commands.map((below) => ({ name: below.name(), summary: below.summary() })), options };
  return [own, ...commands.filter((below) => below.name() !== 'help').flatMap((below) => wordsOf(below, path))];
}

const SCRIPTS: Readonly<Record<Shell, (words: readonly Words[]) => string>> = { bash, zsh, fish };

function bash(words: readonly Words[]): string {
  const cases = words.map(({ path, commands, options }) => {
    const follow = [...commands.map(({ name }) => name), ...options.map(({ flag }) => flag)].join(' ');
    return `    '${path.join(' ')}') words='${follow}' ;;`;
  });
  const choices = choicesOf(words).map(
    ([path, flag, values]) =>
      `    '${path} ${flag}') COMPREPLY=($(compgen -W '${values.join(' ')}' -- "$current")); return ;;`,
  );
  return `# Completions of trainyard for bash.
_trainyard() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" path=trainyard words='' word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path $word" in
${pathCases(words)}
    esac
  done
  case "$path $previous" in
${choices.join('\n')}
  esac
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ "\${#COMPREPLY[@]}" -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _trainyard trainyard
`;
}

function zsh(words: readonly Words[]): string {
  const cases = words.map(({ path, commands, options }) => {
    const entries = [
      ...commands.map(({ name, summary }) => `${name}:${summary}`),
      ...options.map(({ flag, summary }) => `${flag}:${summary}`),
    ].map((entry) => `      ${quoted(entry)}`);
    return `    '${path.join(' ')}') entries=(\n${entries.join('\n')}\n    ) ;;`;
  });
  const choices = choicesOf(words).map(
    ([path, flag, values]) => `    '${path} ${flag}') compadd -- ${values.join(' ')}; return ;;`,
  );
  return `#compdef trainyard
# Completions of trainyard for zsh.
_trainyard() {
  local place=trainyard word
  local -a entries
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$place $word" in
${pathCases(words).replaceAll('path=', 'place=')}
    esac
  done
  case "$place \${words[CURRENT-1]}" in
${choices.join('\n')}
  esac
  case "$place" in
${cases.join('\n')}
  esac
  _describe trainyard entries || _files
}
compdef _trainyard trainyard
`;
}

function fish(words: readonly Words[]): string {
  const lines = words.flatMap(({ path, commands, options }) => {
    const place = `-n '${['__trainyard_at', ...path.slice(1)].join(' ')}'`;
    return [
      ...commands.map(({ name, summary }) => `complete -c trainyard -f ${place} -a ${name} -d ${quoted(summary)}`),
      ...options.map(({ flag, summary, takesValue, choices }) => {
        const value = choices.length > 0 ? ` -x -a '${choices.join(' ')}'` : takesValue ? ' -r' : '';
        return `complete -c trainyard ${place} -l ${flag.slice(2)}${value} -d ${quoted(summary)}`;
      }),
    ];
  });
  const groups = words
    .filter(({ path, commands }) => path.length > 1 && commands.length > 0)
    .map(({ path }) => path.at(-1));
  return `# Completions of trainyard for fish.
# Whether the words before the cursor that are no options begin with these, and no further command follows.
function __trainyard_at
  set -l words (commandline -opc)
  set -e words[1]
  set -l path
  for word in $words
    string match -q -- '-*' $word; and continue
    set -l most 1
    contains -- "$path[1]" ${groups.join(' ')}; and set most 2
    test (count $path) -lt $most; and set path $path $word
  end
  test "$path" = "$argv"
end
${lines.join('\n')}
`;
}

/** Shell cases from each command to its subcommands. */
function pathCases(words: readonly Words[]): string {
  return words
    .filter(({ path }) => path.length > 1)
    .map(({ path }) => `      '${path.join(' ')}') path='${path.join(' ')}' ;;`)
    .join('\n');
}

function choicesOf(words: readonly Words[]): (readonly [path: string, flag: string, values: readonly string[]])[] {
  return words.flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ flag, choices }) => [path.join(' '), flag, choices] as const),
  );
}

/** Quotes a text as one shell word. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
