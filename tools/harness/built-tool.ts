import { fileURLToPath } from 'node:url';

/** The path of a built program of `tools/`. Under Jest this file is TypeScript, and what was built lies in `dist/`. */
export function builtTool(program: string): string {
  const folder = import.meta.url.endsWith('.ts') ? '../../dist/tools/' : '../';
  return fileURLToPath(new URL(folder + program, import.meta.url));
}
