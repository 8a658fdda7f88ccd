/** Cause of a failed rendering that took too many steps. */
export class TemplateExhausted extends Error {
  override readonly name = 'TemplateExhausted';
}

/** True if a rendering failed by taking too many steps; others of the same template would too. */
export function isExhausted(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof TemplateExhausted;
}
