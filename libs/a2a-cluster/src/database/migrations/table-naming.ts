import type { DataSource } from 'typeorm';

/** Names tables as the DataSource does: in its schema, with its entityPrefix. */
export function tableNaming({ options }: DataSource): (name: string) => string {
  const { schema } = options as { schema?: string };
  return (name) => `${schema ? `${schema}.` : ''}${options.entityPrefix ?? ''}${name}`;
}
