import * as sdk from '@a2a-js/sdk';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import { Client, credentials, Metadata, type MethodDefinition, status, type StatusObject } from '@grpc/grpc-js';
import fc from 'fast-check';
import { targetOf } from '../e2e/grpc.fixture.js';
import { garbled } from './damaged-json.js';
import { FuzzedApp, RUNS } from './fuzzed-app.js';
import { CALLS } from './good-requests.js';

const fuzzed = new FuzzedApp();

let client: Client;

beforeEach(() => {
  client = new Client(targetOf(fuzzed.app), credentials.createInsecure());
});

afterEach(() => client.close());

interface Codec {
  fromJSON(json: unknown): object;
}

const methods = A2AService as unknown as Record<string, MethodDefinition<object, unknown>>;

/** A good request of a method, as protobuf writes it. */
function encoded(name: string, id: string): Buffer {
  const { requestSerialize } = methods[name[0]!.toLowerCase() + name.slice(1)]!;
  const type = {
    CreateTaskPushNotificationConfig: 'TaskPushNotificationConfig',
    SendStreamingMessage: 'SendMessageRequest',
  };
  const codec = (sdk as unknown as Record<string, Codec>)[type[name as keyof typeof type] ?? `${name}Request`]!;
  return requestSerialize(codec.fromJSON(CALLS[name]!(id)));
}

/** Stand for the ids of tasks, which are as long, so that the lengths that protobuf writes stay true. */
const PLACEHOLDERS = { ['w'.repeat(36)]: '@waiting@', ['e'.repeat(36)]: '@ended@' };

/** With the ids in their place. */
const named = (bytes: Buffer): Buffer =>
  Buffer.from(
    Object.entries(PLACEHOLDERS).reduce(
      (text, [placeholder, name]) => text.replaceAll(placeholder, fuzzed.named(name)),
      bytes.toString('latin1'),
    ),
    'latin1',
  );

interface RawCall {
  name: string;
  bytes: Buffer;
}

const calls: fc.Arbitrary<RawCall> = fc
  .tuple(fc.constantFrom(...Object.keys(CALLS)), fc.constantFrom(...Object.keys(PLACEHOLDERS), 'no-such-task', ''))
  .chain(([name, id]) =>
    fc.record({
      name: fc.constant(name),
      bytes: fc.oneof(
        { arbitrary: garbled(fc.constant(encoded(name, id))), weight: 5 },
        { arbitrary: garbled(garbled(fc.constant(encoded(name, id)))), weight: 3 },
        fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
      ),
    }),
  );

/** How a call ends; of a stream that stays open, that it was taken. */
function outcome({ name, bytes }: RawCall): Promise<StatusObject> {
  const { path, responseDeserialize } = methods[name[0]!.toLowerCase() + name.slice(1)]!;
  const metadata = new Metadata();
  metadata.set('a2a-version', '1.0');
  const call = client.makeServerStreamRequest(path, (it: Buffer) => it, responseDeserialize, named(bytes), metadata);
  return new Promise((resolve) => {
    call
      .once('data', () => call.cancel())
      .once('error', () => undefined)
      .once('status', resolve);
  });
}

/** What gRPC itself answers where the bytes are no message of this kind. */
const UNREADABLE = 'Error deserializing request';

async function expectAnswered(call: RawCall): Promise<void> {
  fuzzed.fixture.logger.clear();
  const { code, details } = await outcome(call);
  if (!details.startsWith(UNREADABLE)) expect([status.INTERNAL, status.UNKNOWN]).not.toContain(code);
  fuzzed.expectDiscreet(details);
}

test(
  'Damaged requests over gRPC are answered with a status of the protocol, and harm nothing',
  async () => {
    await fc.assert(fc.asyncProperty(calls, expectAnswered));
    await fuzzed.expectSound();
  },
  RUNS * 1_000,
);
