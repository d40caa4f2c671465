import {
  AgentCard,
  CancelTaskRequest,
  DeleteTaskPushNotificationConfigRequest,
  GetExtendedAgentCardRequest,
  GetTaskPushNotificationConfigRequest,
  GetTaskRequest,
  ListTaskPushNotificationConfigsRequest,
  ListTaskPushNotificationConfigsResponse,
  ListTasksRequest,
  ListTasksResponse,
  type MessageFns,
  SendMessageRequest,
  SendMessageResponse,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
  TaskPushNotificationConfig,
} from '@a2a-js/sdk';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { type ServiceError, status } from '@grpc/grpc-js';
import { type Method, RawGrpcClient } from '../helpers/raw-grpc-client.js';
import { answered, type ErrorDetail, type WireAnswer, WireClient } from './wire.client.js';
import { WireStream } from './wire.stream.js';
import type { WireEvent, WireParams } from './wire.types.js';

type Codec = Pick<MessageFns<unknown>, 'fromJSON' | 'toJSON'>;

const nothing = { toJSON: () => undefined };

/** Fields that stand in JSON though they are empty, which over gRPC is the same as not being there. */
const tasks = {
  toJSON: (page: ListTasksResponse) => ({
    tasks: [],
    nextPageToken: '',
    ...(ListTasksResponse.toJSON(page) as object),
  }),
};

/** What an operation takes, and what it answers with. */
const OPERATIONS = {
  SendMessage: [SendMessageRequest, SendMessageResponse],
  SendStreamingMessage: [SendMessageRequest, StreamResponse],
  GetTask: [GetTaskRequest, Task],
  ListTasks: [ListTasksRequest, tasks],
  CancelTask: [CancelTaskRequest, Task],
  SubscribeToTask: [SubscribeToTaskRequest, StreamResponse],
  CreateTaskPushNotificationConfig: [TaskPushNotificationConfig, TaskPushNotificationConfig],
  GetTaskPushNotificationConfig: [GetTaskPushNotificationConfigRequest, TaskPushNotificationConfig],
  ListTaskPushNotificationConfigs: [ListTaskPushNotificationConfigsRequest, ListTaskPushNotificationConfigsResponse],
  DeleteTaskPushNotificationConfig: [DeleteTaskPushNotificationConfigRequest, nothing],
  GetExtendedAgentCard: [GetExtendedAgentCardRequest, AgentCard],
} as unknown as Readonly<Record<string, readonly [Pick<Codec, 'fromJSON'>, Pick<Codec, 'toJSON'>]>>;

/** gRPC, whose messages are shown in the form that the other bindings have on the wire. */
export class GrpcClient extends WireClient {
  constructor(
    target: string,
    private readonly headers: Record<string, string> = {},
    private readonly raw = new RawGrpcClient(target),
  ) {
    super();
  }

  override with(headers: Record<string, string>): this {
    return new GrpcClient('', { ...this.headers, ...headers }, this.raw) as this;
  }

  override async call<Result = unknown>(operation: string, params: WireParams = {}): Promise<WireAnswer<Result>> {
    const { method, request, shown } = callOf(operation, params);
    try {
      return answered({ status: status.OK }, shown(await this.raw.call(method, request, this.metadata)), undefined);
    } catch (error) {
      const { code, details: message, metadata } = error as ServiceError;
      const details = metadata.get('grpc-status-details-bin').flatMap((bytes) => detailsOf(bytes as Buffer));
      return answered({ status: code }, undefined, { code, message, details });
    }
  }

  override stream(operation: string, params: WireParams): Promise<WireStream> {
    const { method, request, shown } = callOf(operation, params);
    const call = this.raw.stream(method, request, {}, this.metadata);
    async function* events(): AsyncGenerator<WireEvent, void> {
      for await (const message of call) yield shown(message) as WireEvent;
    }
    return Promise.resolve(new WireStream(events(), () => call.cancel()));
  }

  private get metadata(): Record<string, string> {
    return { 'a2a-version': '1.0', ...this.headers };
  }
}

function callOf(operation: string, params: WireParams) {
  const [request, response] = OPERATIONS[operation]!;
  const method = (operation[0]!.toLowerCase() + operation.slice(1)) as Method;
  const shown = (message: unknown): unknown => response.toJSON(message);
  return { method, request: request.fromJSON(params) as object, shown };
}

/** The details of a `google.rpc.Status`, an `ErrorInfo` each. */
function detailsOf(bytes: Uint8Array): ErrorDetail[] {
  return (fieldsOf(bytes)[3] ?? []).map((detail) => {
    const [[type], [info]] = [fieldsOf(detail)[1]!, fieldsOf(detail)[2]!];
    const [[reason], [domain]] = [fieldsOf(info!)[1]!, fieldsOf(info!)[2]!];
    return { '@type': textOf(type!), reason: textOf(reason!), domain: textOf(domain!) };
  });
}

/** What a protobuf message has under the numbers of its fields, of texts and of messages. */
export function fieldsOf(bytes: Uint8Array): Record<number, Uint8Array[]> {
  const fields: Record<number, Uint8Array[]> = {};
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (type === WireType.LengthDelimited) (fields[number] ??= []).push(reader.bytes());
    else reader.skip(type);
  }
  return fields;
}

export const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();
