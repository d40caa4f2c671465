import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { Replacement } from './mutations.js';

/** A copy of the built library in a temporary folder, which resolves its imports as the original does. */
export interface LibraryCopy {
  /** Its entry point. */
  readonly index: string;
  remove(): Promise<void>;
}

/** @throws {Error} if a replacement does not match exactly once: the library has changed, and the mutation has not. */
export async function copyLibrary(replacements: readonly Replacement[]): Promise<LibraryCopy> {
  const dist = join(dirname(createRequire(import.meta.url).resolve('nestjs-a2a-cluster/package.json')), 'dist');
  const folder = await mkdtemp(join(tmpdir(), 'a2a-mutation-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    await cp(dist, join(folder, 'dist'), { recursive: true });
    await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
    await symlink(resolve('node_modules'), join(folder, 'node_modules'));
    for (const { file, from, to } of replacements) {
      const path = join(folder, 'dist', file);
      const text = await readFile(path, 'utf8');
      const matches = text.split(from).length - 1;
      if (matches !== 1) throw new Error(`${file} contains ${matches} times, not once: ${from}`);
      await writeFile(
        path,
        text.replace(from, () => to),
      );
    }
    return { index: join(folder, 'dist', 'index.js'), remove };
  } catch (error) {
    await remove();
    throw error;
  }
}
