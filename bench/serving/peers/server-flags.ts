/** @throws {Error} if one is not of the form `--flag` or `--flag=value` */
export function requireFlags(text: string, flags: readonly string[]): readonly string[] {
  const other = flags.find((flag) => !/^--[a-z]/.test(flag));
  if (other !== undefined) throw new Error(`"${other}" in "${text}" is not of the form --flag or --flag=value`);
  return flags;
}
