import type { ServiceDefinition } from '@grpc/grpc-js';
import type { SharedForm } from '../flow/shared-answer.js';

/** What is shared over gRPC, as the service of version 1.0 writes it. */
export function grpcForm({ getTask, subscribeToTask }: ServiceDefinition): SharedForm | undefined {
  if (!getTask || !subscribeToTask) return undefined;
  return {
    name: 'grpc',
    task: (task) => Promise.resolve(getTask.responseSerialize(task)),
    response: (response) => subscribeToTask.responseSerialize(response),
  };
}
