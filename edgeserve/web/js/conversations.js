export async function clearConversations() {}
