SELECT count(*) AS value,
       uuid() AS key
FROM records r
GROUP BY key
