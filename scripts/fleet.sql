-- SPDX-License-Identifier: Apache-2.0
--
-- The table of `heaptap push --to clickhouse+http://HOST:8123`, and questions to it, in the SQL that
-- ClickHouse knows since version 18. A row is a site of a window. A window that arrives twice has the same
-- window_id, and counts once (FINAL). A release is a build: the build-id of the executable.
--
--      clickhouse-client -n < fleet.sql

CREATE TABLE IF NOT EXISTS heaptap
(
    window_id String,
    row UInt32,
    window_start DateTime,
    window_end DateTime,
    seconds Float64,
    host String,
    service String,
    build String,
    pid UInt32,
    site_id String,
    site String,
    frames Array(String),
    module String,
    class String,
    allocations UInt64,
    allocated_bytes UInt64,
    outstanding_blocks UInt64,
    outstanding_bytes UInt64,
    growth_bytes Int64,
    peak_bytes UInt64,
    temporary UInt64,
    -- bounds at 95 % of the estimates of a sample, otherwise 0
    allocated_bytes_bound95 UInt64,
    outstanding_bytes_bound95 UInt64,
    growth_bytes_bound95 UInt64
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(window_start)
ORDER BY (service, window_start, window_id, row);

-- Which site grew on most hosts since the last release? Per service and site: the hosts on which it grows by at
-- least 64 KiB/min more under the newest build than under the one before, and by how much on all of them. For samples
-- the growth must also exceed the bound of the difference.

SELECT
    service,
    any(site) AS site,
    count() AS hosts,
    toInt64(sum(new_rate - old_rate)) AS more_bytes_per_min
FROM
(
    SELECT
        service,
        host,
        site_id,
        any(site) AS site,
        sumIf(rate, build = builds[1]) AS new_rate,
        sumIf(rate, build = builds[2]) AS old_rate,
        sqrt(sumIf(square, build = builds[1] OR build = builds[2])) AS bound
    FROM
    (
        SELECT
            service,
            host,
            build,
            site_id,
            site,
            60 * growth / seconds AS rate,
            3600 * growth_square / (seconds * seconds) AS square
        FROM
        (
            SELECT service, host, build, site_id, any(site) AS site, sum(growth_bytes) AS growth,
                sum(toFloat64(growth_bytes_bound95) * growth_bytes_bound95) AS growth_square
            FROM heaptap FINAL
            GROUP BY service, host, build, site_id
        )
        ANY INNER JOIN
        (
            SELECT service, host, build, sum(window_seconds) AS seconds
            FROM
            (
                SELECT service, host, build, window_id, any(seconds) AS window_seconds
                FROM heaptap
                GROUP BY service, host, build, window_id
            )
            GROUP BY service, host, build
        )
        USING service, host, build
    )
    ANY INNER JOIN
    (
        SELECT service, groupArray(build) AS builds
        FROM
        (
            SELECT service, build, min(window_start) AS first
            FROM heaptap
            GROUP BY service, build
            ORDER BY service, first DESC
        )
        GROUP BY service
    )
    USING service
    GROUP BY service, host, site_id
)
WHERE new_rate >= old_rate + greatest(65536, bound)
GROUP BY service, site_id
ORDER BY hosts DESC, more_bytes_per_min DESC
LIMIT 20;

-- Which sites grow now, by what heaptap found of each window of the last day?

SELECT service, any(site) AS site, uniq(host) AS hosts, count() AS windows, max(outstanding_bytes) AS most_bytes
FROM heaptap FINAL
WHERE class = 'growing' AND window_start > now() - 86400
GROUP BY service, site_id
ORDER BY hosts DESC, most_bytes DESC
LIMIT 20;
