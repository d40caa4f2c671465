import { isDeepStrictEqual } from 'node:util';
import { Task, TaskState } from '@a2a-js/sdk';
import fc from 'fast-check';
import { artifact, IDS } from '../../../../test/helpers/task-arbitraries.js';
import { applyEvent } from './apply-event.js';
import { ArtifactRestart, artifactsBefore } from './artifact-restart.js';
import type { TaskEvent } from './task-event.js';
import { copyEvent, decodeEvent, encodeEvent } from './task-event.codec.js';

type ArtifactEvent = Extract<TaskEvent, { kind: 'artifactUpdate' }>;

const update: fc.Arbitrary<ArtifactEvent> = fc
  .record({ artifact, append: fc.boolean(), lastChunk: fc.boolean() }, { noNullPrototype: true })
  .map((it) => ({ kind: 'artifactUpdate', artifactUpdate: { ...IDS, ...it, metadata: undefined } }));

const updates = fc.array(update, { maxLength: 6 });

/** Nothing but parts: an update that names the artifact anew cannot be told apart from what was there. */
const partsOnly = (events: ArtifactEvent[]): ArtifactEvent[] =>
  events.map((event) => {
    const { artifact, append } = event.artifactUpdate;
    if (!append) return event;
    return {
      ...event,
      artifactUpdate: {
        ...event.artifactUpdate,
        artifact: { ...artifact!, name: '', description: '', metadata: undefined },
      },
    };
  });

const begin = (): Task => ({
  id: IDS.taskId,
  contextId: IDS.contextId,
  artifacts: [],
  history: [],
  metadata: undefined,
  status: { state: TaskState.TASK_STATE_WORKING, message: undefined, timestamp: undefined },
});

/** Folded as they come from the database: nothing is shared. */
const fold = (events: readonly TaskEvent[]): Task =>
  events.map((event) => decodeEvent(encodeEvent(event))).reduce<Task>(applyEvent, begin());

const idOf = (event: ArtifactEvent): string => event.artifactUpdate.artifact!.artifactId;

/** The artifacts with these ids, as clients are sent them. */
const wire = (task: Task, ids: Set<string>): unknown =>
  (Task.toJSON({ ...task, artifacts: task.artifacts.filter(({ artifactId }) => ids.has(artifactId)) }) as Task)
    .artifacts;

const byId = (artifacts: unknown): Record<string, unknown> =>
  Object.fromEntries(((artifacts ?? []) as { artifactId: string }[]).map((it) => [it.artifactId, it]));

/** What a further attempt stores, given all that was stored before. */
function attempt(earlier: readonly TaskEvent[], ofTurn: readonly TaskEvent[], published: readonly TaskEvent[]) {
  const task = fold([...earlier, ...ofTurn]);
  const restart = new ArtifactRestart(artifactsBefore(task, ofTurn));
  return published.map((event) => copyEvent(restart.apply(event)).event);
}

/** Whether the attempts have only added to what was there before the turn: what they replaced is lost. */
function keeps(earlier: readonly ArtifactEvent[], lost: readonly ArtifactEvent[]): (id: string) => boolean {
  const before = new Set(earlier.map(idOf));
  const replaced = new Set(lost.filter(({ artifactUpdate }) => !artifactUpdate.append).map(idOf));
  return (id) => !(before.has(id) && replaced.has(id));
}

function expectAsIfAlone(
  earlier: ArtifactEvent[],
  ofTurn: readonly TaskEvent[],
  last: ArtifactEvent[],
  kept: (id: string) => boolean,
): void {
  const ids = new Set(last.map(idOf).filter(kept));
  const stored = byId(wire(fold([...earlier, ...ofTurn, ...attempt(earlier, ofTurn, last)]), ids));
  const alone = byId(wire(fold([...earlier, ...last]), ids));
  if (isDeepStrictEqual(stored, alone)) return;
  expect(stored).toEqual(alone);
  throw new Error('The artifacts differ in a key that Jest does not compare');
}

describe('ArtifactRestart', () => {
  it('O36 what a second attempt touches is as if the first had not been', () => {
    fc.assert(
      fc.property(updates, updates.map(partsOnly), updates, (earlier, first, second) => {
        expectAsIfAlone(earlier, first, second, keeps(earlier, first));
      }),
      { numRuns: 200 },
    );
  });

  it('O36 what a third attempt touches is as if the first two had not been', () => {
    const lost = updates.map(partsOnly);
    fc.assert(
      fc.property(updates, lost, lost, updates, (earlier, first, second, third) => {
        const ofTurn = [...first, ...attempt(earlier, first, second)];
        expectAsIfAlone(earlier, ofTurn, third, keeps(earlier, [...first, ...second]));
      }),
      { numRuns: 200 },
    );
  });

  it('O36 what the last attempt does not touch stays as it was left', () => {
    fc.assert(
      fc.property(updates, updates, updates, (earlier, first, second) => {
        const touched = new Set(second.map(idOf));
        const untouched = new Set(['a1', 'a2', 'a3'].filter((id) => !touched.has(id)));
        const before = byId(wire(fold([...earlier, ...first]), untouched));
        const after = byId(wire(fold([...earlier, ...first, ...attempt(earlier, first, second)]), untouched));
        expect(isDeepStrictEqual(after, before)).toBe(true);
      }),
    );
  });

  it('only the first update of each artifact is changed, and only into a replacement', () => {
    fc.assert(
      fc.property(updates, updates, (earlier, published) => {
        const restart = new ArtifactRestart(artifactsBefore(fold(earlier), []));
        const seen = new Set<string>();
        for (const event of published) {
          const given = encodeEvent(event);
          const applied = restart.apply(event);
          expect(encodeEvent(event)).toBe(given);
          if (seen.has(idOf(event)) || !event.artifactUpdate.append) expect(applied).toBe(event);
          else expect((applied as ArtifactEvent).artifactUpdate.append).toBe(false);
          seen.add(idOf(event));
        }
      }),
    );
  });

  it('other events pass as they are', () => {
    const restart = new ArtifactRestart(new Map());
    const event: TaskEvent = { kind: 'statusUpdate', statusUpdate: { ...IDS, status: undefined, metadata: undefined } };
    expect(restart.apply(event)).toBe(event);
  });

  it('keptParts survives the way into the log and back, zero too', () => {
    fc.assert(
      fc.property(update, fc.option(fc.nat(), { nil: undefined }), (event, keptParts) => {
        const given = { ...event, ...(keptParts !== undefined && { keptParts }) };
        for (const read of [decodeEvent(encodeEvent(given)), copyEvent(given).event]) {
          expect(isDeepStrictEqual(read, given)).toBe(true);
        }
      }),
    );
  });
});
