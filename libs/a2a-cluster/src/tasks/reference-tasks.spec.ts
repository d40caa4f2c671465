import { referenceTasks } from './reference-tasks.js';
import type { FoundTask, LargeTask, VersionedTaskStore } from './task-store.js';

/** Tasks of these sizes, by their ids, and what is read of them. */
function storeOf(sizes: Record<string, number>) {
  const reads: string[] = [];
  let atOnce = 0;
  const store = {
    async findUpTo({ taskId }: { taskId: string }, maxBytes: number): Promise<FoundTask | LargeTask | undefined> {
      const size = sizes[taskId];
      atOnce += 1;
      reads.push(`${taskId} up to ${maxBytes}, ${atOnce} at once`);
      await Promise.resolve();
      atOnce -= 1;
      if (size === undefined) return undefined;
      if (size > maxBytes) return { bytes: size } as LargeTask;
      return { task: { id: taskId }, length: { snapshot: size, tail: 0 } } as FoundTask;
    },
  } as unknown as VersionedTaskStore;
  return { store, reads };
}

const scopeOf = (taskId: string) => ({ tenant: '', owner: '', taskId });
const refuse = (taskId: string): never => {
  throw new Error(`${taskId} is too large`);
};

describe('The tasks that a message refers to', () => {
  test('are read one after another, each once however often it is mentioned', async () => {
    const { store, reads } = storeOf({ a: 10, b: 20 });
    const ids = [...Array<string>(5_000).fill('a'), 'b', 'unknown', 'a'];
    const found = await referenceTasks(store, ids, scopeOf, { maxBytes: 100, tooLarge: refuse });
    expect(found?.map(({ id }) => id)).toEqual(['a', 'b']);
    expect(reads).toEqual(['a up to 100, 1 at once', 'b up to 90, 1 at once', 'unknown up to 70, 1 at once']);
  });

  test('hold no more together than their bound: what goes beyond it is not read, nor what comes after it', async () => {
    const { store, reads } = storeOf({ a: 60, b: 60, c: 1 });
    const found = referenceTasks(store, ['a', 'b', 'c'], scopeOf, { maxBytes: 100, tooLarge: refuse });
    await expect(found).rejects.toThrow('b is too large');
    expect(reads).toEqual(['a up to 100, 1 at once', 'b up to 40, 1 at once']);
  });

  test('are given without those that do not fit where the turn has to be run all the same', async () => {
    const { store } = storeOf({ a: 60, b: 60, c: 40 });
    const left: string[] = [];
    const bounds = { maxBytes: 100, tooLarge: (id: string) => void left.push(id) };
    const found = await referenceTasks(store, ['a', 'b', 'c'], scopeOf, bounds);
    expect(found?.map(({ id }) => id)).toEqual(['a', 'c']);
    expect(left).toEqual(['b']);
  });

  test('are none where it refers to none', async () => {
    const { store, reads } = storeOf({});
    expect(await referenceTasks(store, [], scopeOf, { maxBytes: 1, tooLarge: refuse })).toBeUndefined();
    expect(reads).toEqual([]);
  });
});
