import { randomUUID } from 'node:crypto';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { onCleanUp } from '../helpers/clean-up.js';
import { fieldsOf, GrpcClient, textOf } from './grpc.client.js';
import { OPERATIONS, type Served } from './set-ups.fixture.js';
import { messageOf } from './wire.client.js';
import { kindOf } from './wire.stream.js';

const asIs = (bytes: Uint8Array): Buffer => Buffer.from(bytes);

/** What is of gRPC alone: its service, its bytes, its metadata and its streams. */
export function grpcRequirements(served: Served): void {
  /** Calls a method with the bytes of its request, by the numbers of `a2a.proto`; answers its bytes or its status. */
  function callRaw(
    method: string,
    request: Uint8Array,
    headers: Record<string, string>,
  ): Promise<Buffer | ServiceError> {
    const client = new Client(served.grpcTarget, credentials.createInsecure());
    onCleanUp(() => client.close());
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
    return new Promise((resolve) => {
      client.makeUnaryRequest(`/lf.a2a.v1.A2AService/${method}`, asIs, asIs, request, metadata, (error, answer) =>
        resolve(error ?? answer!),
      );
    });
  }

  const version = { 'a2a-version': '1.0' };

  /** A GetTaskRequest: the id is its field 2. */
  const taskRequest = (id: string): BinaryWriter => new BinaryWriter().tag(2, WireType.LengthDelimited).string(id);

  describe('gRPC', () => {
    const client = (): GrpcClient => new GrpcClient(served.grpcTarget);

    test('GRPC-SVC-001 has every method of the service lf.a2a.v1.A2AService, and no others', async () => {
      for (const operation of OPERATIONS) {
        const answer = await callRaw(operation, new Uint8Array(), version);
        expect([operation, (answer as ServiceError).code]).not.toEqual([operation, status.UNIMPLEMENTED]);
      }
      expect(await callRaw('NoSuchMethod', new Uint8Array(), version)).toMatchObject({ code: status.UNIMPLEMENTED });
    });

    test('GRPC-SVC-002, DM-SERIAL-005 speaks proto3 by the numbers of a2a.proto, and ignores fields that it has not', async () => {
      const { id, contextId } = await client().task('tck-complete-task');
      const request = taskRequest(id)
        .tag(99, WireType.LengthDelimited)
        .string('blue')
        .tag(98, WireType.Varint)
        .uint32(1);
      const task = fieldsOf((await callRaw('GetTask', request.finish(), version)) as Buffer);
      expect([textOf(task[1]![0]!), textOf(task[2]![0]!)]).toEqual([id, contextId]);
    });

    test('GRPC-META-001, VER-SERVER-002, -003 takes the version from metadata, and none for 0.3', async () => {
      const answerTo = (headers: Record<string, string>) =>
        callRaw('GetTask', taskRequest(randomUUID()).finish(), headers);
      expect(await answerTo(version)).toMatchObject({ code: status.NOT_FOUND });
      for (const headers of [{ 'a2a-version': '99.0' }, {}] as Record<string, string>[]) {
        expect(await answerTo(headers)).toMatchObject({ code: status.FAILED_PRECONDITION });
      }
    });

    test('GRPC-ERR-003 streams by server streaming, of StreamResponse messages', async () => {
      const stream = await client().stream('SendStreamingMessage', { message: messageOf('tck-stream-001') });
      const [first = '', ...updates] = (await stream.rest()).map(kindOf);
      expect(first).toMatch(/^task /);
      expect(updates.slice(-2)).toEqual(['artifactUpdate', 'statusUpdate COMPLETED']);
    });

    test('GRPC-ERR-003 a stream that is refused ends with the status of its error', async () => {
      const stream = await client().stream('SubscribeToTask', { id: randomUUID() });
      await expect(stream.next()).rejects.toMatchObject({ code: status.NOT_FOUND });
    });
  });
}
