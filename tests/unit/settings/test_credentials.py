from __future__ import annotations

import pytest

from firnline.settings.credentials import is_credential

CREDENTIALS = [
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.session.token",
    "spark.hadoop.fs.s3a.bucket.lake.secret.key",
    "spark.hadoop.fs.s3a.encryption.key",
    "spark.hadoop.fs.s3a.server-side-encryption.key",
    "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
    "spark.hadoop.fs.azure.account.key.path.blob.core.windows.net",
    "spark.hadoop.fs.azure.account.key",
    "spark.hadoop.fs.azure.sas.files.acct.blob.core.windows.net",
    "spark.hadoop.fs.azure.sas.fixed.token.acct.dfs.core.windows.net",
    "spark.hadoop.fs.azure.account.oauth2.client.secret.file.dfs.core.windows.net",
    "spark.hadoop.fs.azure.account.oauth2.user.password",
    "spark.hadoop.fs.azure.account.oauth2.refresh.token",
    "spark.hadoop.fs.gs.auth.service.account.private.key",
    "spark.hadoop.google.cloud.auth.service.account.private.key",
    "spark.hadoop.fs.gs.auth.client.secret",
    "spark.hadoop.fs.gs.encryption.key",
    "spark.hadoop.javax.jdo.option.ConnectionPassword",
    "spark.hadoop.parquet.encryption.key.access.token",
    "spark.authenticate.secret",
    "spark.ssl.keyPassword",
    "spark.ssl.trustStorePassword",
    "spark.kubernetes.authenticate.oauthToken",
    "spark.sql.catalog.prod.token",
    "spark.sql.catalog.prod.credential",
    "spark.x.apikey",
    "spark.x.apiKey",
    "spark.x.api-key",
    "spark.executorEnv.DB_PWD",
    "spark.executorEnv.MYSQL_PWD",
    "spark.executorEnv.PGPASSWORD",
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
    "spark.executorEnv.AWS_SESSION_TOKEN",
    "spark.executorEnv.AZURE_STORAGE_KEY",
    "spark.executorEnv.AZURE_STORAGE_CONNECTION_STRING",
    "spark.executorEnv.AIRFLOW_CONN_LAKE",
    "spark.executorEnv.FIRNLINE_DB_PASS",
    "spark.yarn.appMasterEnv.DB_PWD",
    "spark.yarn.appMasterEnv.OPENAI_API_KEY",
    "spark.kubernetes.driverEnv.VAULT_TOKEN",
]


@pytest.mark.parametrize("name", CREDENTIALS)
def test_credentials_of_every_connector_and_variable_are_known_by_their_names(name: str) -> None:
    assert is_credential(name, "x")


HARMLESS = {
    "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.SimpleAWSCredentialsProvider",
    "spark.hadoop.fs.s3a.encryption.key": "arn:aws:kms:eu-west-1:1:key/2",
    "spark.hadoop.fs.s3a.encryption.algorithm": "SSE-KMS",
    "spark.hadoop.fs.s3a.bucket.tokens.endpoint": "https://host",
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.hadoop.security.credential.provider.path": "jceks://hdfs/keys.jceks",
    "spark.hadoop.fs.azure.account.keyprovider.acct.dfs.core.windows.net": "org.x.KeyProvider",
    "spark.hadoop.fs.azure.account.auth.type.acct.dfs.core.windows.net": "OAuth",
    "spark.hadoop.fs.azure.account.oauth.provider.type": "org.x.ClientCredsTokenProvider",
    "spark.hadoop.fs.azure.account.oauth2.client.id": "id",
    "spark.hadoop.fs.azure.account.oauth2.client.endpoint": "https://login/oauth2/token",
    "spark.hadoop.fs.azure.account.oauth2.refresh.token.endpoint": "https://login",
    "spark.hadoop.fs.azure.account.oauth2.token.file": "/var/run/token",
    "spark.hadoop.fs.azure.sas.token.provider.type": "org.x.SasProvider",
    "spark.hadoop.google.cloud.auth.service.account.json.keyfile": "/etc/gs.json",
    "spark.hadoop.fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
    "spark.hadoop.parquet.encryption.kms.client.class": "org.x.Kms",
    "spark.authenticate.secret.driver.file": "/etc/secret",
    "spark.authenticate.enableSaslEncryption": "true",
    "spark.io.encryption.keySizeBits": "256",
    "spark.network.crypto.keyLength": "128",
    "spark.ssl.keyStore": "/etc/keys.jks",
    "spark.ssl.keyStoreType": "JKS",
    "spark.kerberos.keytab": "/etc/x.keytab",
    "spark.kerberos.principal": "x@REALM",
    "spark.security.credentials.hive.enabled": "false",
    "spark.security.credentials.renewalRatio": "0.75",
    "spark.kubernetes.authenticate.oauthTokenFile": "/var/run/token",
    "spark.kubernetes.authenticate.driver.serviceAccountName": "firnline",
    "spark.kubernetes.executor.secrets.lake": "/mnt/secrets",
    "spark.kubernetes.driver.secretKeyRef.DB_PWD": "lake:pwd",
    "spark.executor.memory": "4g",
    "spark.executor.extraJavaOptions": "-Dlog4j.configurationFile=/etc/log4j2.xml -Xmx1g",
    "spark.executorEnv.AWS_SHARED_CREDENTIALS_FILE": "/etc/aws",
    "spark.executorEnv.AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token",
    "spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS": "/etc/gs.json",
    "spark.executorEnv.PWD": "/work",
    "spark.executorEnv.LANG": "C.UTF-8",
    "spark.executorEnv.KEYWORDS": "a",
    "spark.yarn.appMasterEnv.FIRNLINE_TABLES": "tables.yaml",
    "spark.archives": "hdfs:///envs/firnline.tar.gz#environment",
    "spark.jars": "s3a://lake/passage.jar",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.hive.metastore.uris": "thrift://host:9083",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_classes_providers_files_and_the_clusters_own_secrets_are_none(name: str) -> None:
    assert not is_credential(name, HARMLESS[name])


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://me:hush@host/db",
        "-----BEGIN PRIVATE KEY-----",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hush==",
        "https://acct.blob.core.windows.net/c?sv=2020&sig=hush",
        "-Xmx1g -Djavax.net.ssl.keyStorePassword=hush",
        "-Dfs.azure.account.key.acct.dfs.core.windows.net=hush",
    ],
)
def test_a_credential_in_a_value_is_known_too(value: str) -> None:
    assert is_credential("spark.driver.extraJavaOptions", value)
