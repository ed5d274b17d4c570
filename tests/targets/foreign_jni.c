/* SPDX-License-Identifier: Apache-2.0
 *
 * The JNI functions by which Java calls foreign.c.
 */
#include <jni.h>

#include "tests/targets/foreign.h"
#include "tests/targets/speak.h"

struct back {
	JNIEnv *env;
	jclass class;
	jmethodID method;
};

static void call_back(void *context, uint64_t seed)
{
	struct back *back = context;
	(*back->env)->CallStaticVoidMethod(back->env, back->class, back->method, (jlong)seed);
	if ((*back->env)->ExceptionCheck(back->env))
		speak_fail("an exception was thrown into C");
}

JNIEXPORT void JNICALL Java_Foreign_begin(JNIEnv *env, jclass class)
{
	(void)env;
	(void)class;
	foreign_begin();
}

JNIEXPORT void JNICALL Java_Foreign_work(
	JNIEnv *env, jclass class, jlong seed, jint operations, jboolean and_back)
{
	struct back back = {env, class, (*env)->GetStaticMethodID(env, class, "back", "(J)V")};
	if (!back.method)
		speak_fail("Foreign has no method back");
	foreign_work((uint64_t)seed, (unsigned)operations, and_back ? call_back : NULL, &back);
}

JNIEXPORT void JNICALL Java_Foreign_say(JNIEnv *env, jclass class)
{
	(void)env;
	(void)class;
	foreign_say();
}

JNIEXPORT void JNICALL Java_Foreign_save(JNIEnv *env, jclass class, jstring path)
{
	(void)class;
	const char *text = (*env)->GetStringUTFChars(env, path, NULL);
	if (!text)
		speak_fail("no characters of a string");
	foreign_save(text);
	(*env)->ReleaseStringUTFChars(env, path, text);
}
