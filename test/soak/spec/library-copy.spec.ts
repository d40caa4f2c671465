import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { copyLibrary } from '../mutations/library-copy.js';
import { MUTATIONS } from '../mutations/mutations.js';

describe('copies of the library with a fault made on purpose', () => {
  it.each(MUTATIONS)('$name: each replacement matches the built library exactly once', async ({ replacements }) => {
    const copy = await copyLibrary(replacements);
    for (const { file, from } of replacements) {
      const text = await readFile(join(dirname(copy.index), file), 'utf8');
      expect(text).not.toContain(from);
    }
    await copy.remove();
    expect(existsSync(copy.index)).toBe(false);
  });

  it('are not made where a replacement does not match, or matches twice', async () => {
    const file = 'postgres/tasks/task-statements.js';
    await expect(copyLibrary([{ file, from: 'no such text', to: '' }])).rejects.toThrow(/contains 0 times, not once/);
    await expect(copyLibrary([{ file, from: 'SELECT', to: '' }])).rejects.toThrow(/contains \d+ times, not once/);
  });
});
