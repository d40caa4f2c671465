import type { Json } from '../recording.js';
import { isObject, listAt, objectAt, textAt } from './json.js';
import { isTerminal } from './states.js';

/**
 * What a task is after one more event of its log, by A2A's description of the events. Written for the checker, and shared
 * with nothing: what the library folds is held against this.
 */
export function fold(task: Json | undefined, event: Json): Json {
  const begun = objectAt(event, 'task');
  if (begun) return { ...begun, artifacts: listAt(begun, 'artifacts'), history: listAt(begun, 'history') };
  if (!task || isTerminal(stateOf(task))) return task ?? {};
  const status = objectAt(event, 'statusUpdate');
  if (status) return withStatus(task, status, event.fromTask === true);
  const artifact = objectAt(event, 'artifactUpdate');
  if (artifact) return withMetadata(withArtifact(task, artifact), artifact.metadata);
  const message = objectAt(event, 'userMessage');
  if (message) return { ...task, history: [...listAt(task, 'history'), message] };
  const merge = objectAt(event, 'taskMerge');
  return withMetadata({ ...task, ...(Array.isArray(merge?.history) && { history: merge.history }) }, merge?.metadata);
}

export const stateOf = (task: Json | undefined): string | undefined => textAt(objectAt(task, 'status'), 'state');

function withStatus(task: Json, update: Json, fromTask: boolean): Json {
  const { status } = update;
  const said = objectAt(status, 'message');
  const history = listAt(task, 'history');
  const known = history.some((message) => isObject(message) && message.messageId === said?.messageId);
  const spoken = said && !fromTask && !known ? [...history, said] : history;
  return withMetadata({ ...task, status, history: spoken }, update.metadata);
}

function withArtifact(task: Json, update: Json): Json {
  const incoming = objectAt(update, 'artifact');
  if (!incoming) return task;
  const artifacts = listAt(task, 'artifacts').filter(isObject);
  const at = artifacts.findIndex(({ artifactId }) => artifactId === incoming.artifactId);
  const present = artifacts[at];
  if (!present) return { ...task, artifacts: [...artifacts, incoming] };
  const whole = update.append === true ? appended(present, incoming) : incoming;
  return { ...task, artifacts: artifacts.map((artifact, index) => (index === at ? whole : artifact)) };
}

function appended(present: Json, incoming: Json): Json {
  return withMetadata(
    {
      ...present,
      parts: [...listAt(present, 'parts'), ...listAt(incoming, 'parts')],
      ...(textAt(incoming, 'name') && { name: incoming.name }),
      ...(textAt(incoming, 'description') && { description: incoming.description }),
    },
    incoming.metadata,
  );
}

function withMetadata(of: Json, metadata: unknown): Json {
  if (!isObject(metadata)) return of;
  return { ...of, metadata: { ...(isObject(of.metadata) && of.metadata), ...metadata } };
}
