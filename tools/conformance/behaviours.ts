import { type Part, TaskState } from '@a2a-js/sdk';
import { textPart } from '../harness/text.js';

/** One thing that the agent does. */
export type Step =
  | { readonly status: TaskState; readonly text?: string }
  | { readonly artifact: Part; readonly append?: boolean; readonly lastChunk?: boolean }
  | { readonly reply: string }
  | { readonly waitMs: number };

/** Twice what the kit waits for the next event of a stream. */
const LONG_MS = 4_000;

const working: Step = { status: TaskState.TASK_STATE_WORKING };
const completed: Step = { status: TaskState.TASK_STATE_COMPLETED };
const text = (value: string): Step => ({ artifact: textPart(value) });

const FILE = { metadata: undefined, filename: 'output.txt', mediaType: 'text/plain' };
const rawFile: Step = { artifact: { ...FILE, content: { $case: 'raw', value: Buffer.from('tck') } } };
const fileUrl: Step = { artifact: { ...FILE, content: { $case: 'url', value: 'https://example.com/output.txt' } } };
const data: Step = {
  artifact: {
    metadata: undefined,
    filename: '',
    mediaType: 'application/json',
    content: { $case: 'data', value: { key: 'value', count: 42 } },
  },
};

/** What the agent does for a message, by the prefix of the message's id: so the kit tells an agent what it wants. */
const BEHAVIOURS: Readonly<Record<string, readonly Step[]>> = {
  'tck-complete-task': [{ ...completed, text: 'Hello from TCK' }],
  'tck-input-required': [{ status: TaskState.TASK_STATE_INPUT_REQUIRED }],
  'tck-reject-task': [{ status: TaskState.TASK_STATE_REJECTED, text: 'rejected' }],
  'tck-message-response': [{ reply: 'Direct message response' }],
  'tck-artifact-text': [text('Generated text content'), completed],
  'tck-artifact-file': [rawFile, completed],
  'tck-artifact-file-url': [fileUrl, completed],
  'tck-artifact-data': [data, completed],
  'tck-stream-001': [working, text('Stream hello from TCK'), completed],
  'tck-stream-002': [completed],
  'tck-stream-003': [working, text('Stream task lifecycle'), completed],
  'tck-stream-ordering-001': [working, text('Ordered output'), completed],
  'tck-stream-artifact-text': [working, text('Streamed text content'), completed],
  'tck-stream-artifact-file': [working, rawFile, completed],
  'tck-stream-artifact-chunked': [
    working,
    text('chunk-1 '),
    { artifact: textPart('chunk-2'), append: true, lastChunk: true },
    completed,
  ],
  'test-resubscribe-message-id': [working, { waitMs: LONG_MS }, completed],
};

const LONGEST_FIRST = Object.keys(BEHAVIOURS).sort((one, other) => other.length - one.length);

/** The steps for a message; a message that asks for nothing in particular is completed. */
export function behaviourFor(messageId: string): readonly Step[] {
  const prefix = LONGEST_FIRST.find((candidate) => messageId.startsWith(candidate));
  return prefix === undefined ? [completed] : BEHAVIOURS[prefix]!;
}
