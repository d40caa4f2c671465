import type { ListTasksRequest, ListTasksResponse } from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';

/** A ListTasks request that asks for nothing special. */
export const LISTING: ListTasksRequest = {
  tenant: '',
  contextId: '',
  status: 0,
  pageSize: undefined,
  pageToken: '',
  historyLength: undefined,
  statusTimestampAfter: undefined,
  includeArtifacts: undefined,
};

export const listTasks = (client: Client, params: Partial<ListTasksRequest> = {}): Promise<ListTasksResponse> =>
  client.listTasks({ ...LISTING, ...params });
