import type { Artifact, Task } from '@a2a-js/sdk';
import type { TaskEvent } from './task-event.js';

/**
 * Restarts the artifacts of a turn that is run again: the first update of each is a replacement, so that what the lost
 * attempt left is not appended to. An artifact that was there before the turn begins again as it was then.
 */
export class ArtifactRestart {
  private readonly restarted = new Set<string>();

  /** @param before the artifacts as they stood before the turn, by id; see {@link artifactsBefore} */
  constructor(private readonly before: ReadonlyMap<string, Artifact>) {}

  /** The event as it is to be stored and streamed. */
  apply(event: TaskEvent): TaskEvent {
    if (event.kind !== 'artifactUpdate') return event;
    const { artifact, append } = event.artifactUpdate;
    if (!artifact || this.restarted.has(artifact.artifactId)) return event;
    this.restarted.add(artifact.artifactId);
    if (!append) return event;
    const before = this.before.get(artifact.artifactId);
    const whole = before ? appended(before, artifact) : artifact;
    const restart: TaskEvent = {
      kind: 'artifactUpdate',
      artifactUpdate: { ...event.artifactUpdate, append: false, artifact: whole },
    };
    return before ? { ...restart, keptParts: before.parts.length } : restart;
  }
}

/**
 * The artifacts of a task as they were before a turn: the parts that the turn's events appended are taken off. Artifacts
 * that the turn began or replaced are left out.
 * @param events all events of the turn, in order
 */
export function artifactsBefore(task: Task, events: readonly TaskEvent[]): Map<string, Artifact> {
  const touched = new Map<string, 'replaced' | number>();
  for (const event of events) {
    if (event.kind !== 'artifactUpdate' || !event.artifactUpdate.artifact) continue;
    const { artifact, append } = event.artifactUpdate;
    const { artifactId, parts } = artifact;
    const added = touched.get(artifactId) ?? 0;
    if (event.keptParts !== undefined) touched.set(artifactId, parts.length - event.keptParts);
    else if (!append) touched.set(artifactId, 'replaced');
    else if (added !== 'replaced') touched.set(artifactId, added + parts.length);
  }
  const before = new Map<string, Artifact>();
  for (const artifact of task.artifacts) {
    const added = touched.get(artifact.artifactId) ?? 0;
    if (added === 'replaced') continue;
    const length = artifact.parts.length - added;
    // Nothing is left of it: the turn began it.
    if (length > 0) before.set(artifact.artifactId, { ...artifact, parts: artifact.parts.slice(0, length) });
  }
  return before;
}

/** As the fold appends: new parts behind the old ones, and what the update names anew. */
const appended = (before: Artifact, update: Artifact): Artifact => ({
  ...before,
  parts: [...before.parts, ...update.parts],
  ...(update.name && { name: update.name }),
  ...(update.description && { description: update.description }),
  ...(update.metadata && { metadata: { ...before.metadata, ...update.metadata } }),
});
