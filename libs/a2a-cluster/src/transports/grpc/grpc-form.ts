import type { ServiceDefinition } from '@grpc/grpc-js';
import type { SharedForm } from '../flow/shared-answer.js';

/** Serializes shared answers as the gRPC service of version 1.0 writes them. */
export function grpcForm({ getTask, subscribeToTask }: ServiceDefinition): SharedForm | undefined {
  if (!getTask || !subscribeToTask) return undefined;
  return {
    name: 'grpc',
    task: (task) => Promise.resolve(getTask.responseSerialize(task)),
    response: (response) => subscribeToTask.responseSerialize(response),
  };
}
