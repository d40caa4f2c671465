import type { StreamResponse } from '@a2a-js/sdk';
import { A2AGrpcServer, type GrpcCall } from 'nestjs-a2a-cluster';
import { TaskEventStream, type VersionedTaskEvent } from 'nestjs-a2a-cluster/stores';
import { type AgentApp, type AgentAppOptions, bearerUser } from './agent-app.fixture.js';
import { textPart } from './agent-events.js';

/** Takes `authorization: Bearer NAME` for user NAME, as the fixture's HTTP does. */
const grpcBearerUser = ({ metadata }: GrpcCall): ReturnType<typeof bearerUser> =>
  bearerUser({ headers: { authorization: String(metadata.get('authorization')[0] ?? '') } } as never);

/** An app that serves gRPC too, at a free port. */
export const withGrpc = (options: AgentAppOptions, grpc: object = {}): AgentAppOptions => ({
  ...options,
  cluster: { ...options.cluster, grpc: { port: 0, host: '127.0.0.1', userBuilder: grpcBearerUser, ...grpc } },
});

/** Where an app serves gRPC. */
export const targetOf = (app: AgentApp): string =>
  `127.0.0.1:${app.nest.get(A2AGrpcServer, { strict: false }).port ?? 'no port'}`;

/** SendMessageRequest as a raw gRPC client writes it; the text is also the message's id. */
export const grpcRequest = (text: string): object => ({
  tenant: '',
  configuration: undefined,
  metadata: undefined,
  message: {
    messageId: text,
    taskId: '',
    contextId: '',
    role: 1,
    parts: [textPart(text)],
    extensions: [],
    referenceTaskIds: [],
    metadata: undefined,
  },
});

/** Notes what the followers of an app's event stream take, and whether they are gone. */
export function watchFollowers(app: AgentApp): { taken: number; open: number }[] {
  const stream = app.nest.get(TaskEventStream, { strict: false });
  const batches = stream.batches.bind(stream);
  const followers: { taken: number; open: number }[] = [];
  stream.batches = (...given) => {
    const follower = { taken: 0, open: 1 };
    followers.push(follower);
    return noted(batches(...given), follower);
  };
  return followers;
}

async function* noted(
  batches: AsyncGenerator<readonly VersionedTaskEvent[], void>,
  follower: { taken: number; open: number },
): AsyncGenerator<readonly VersionedTaskEvent[], void> {
  try {
    for await (const batch of batches) {
      follower.taken += batch.length;
      yield batch;
    }
  } finally {
    follower.open -= 1;
  }
}

/** The texts of the artifact updates among responses. */
export const chunksOf = (responses: readonly StreamResponse[]): string[] =>
  responses.flatMap(({ payload }) => {
    if (payload?.$case !== 'artifactUpdate') return [];
    const content = payload.value.artifact?.parts[0]?.content;
    return content?.$case === 'text' ? [content.value] : [];
  });
